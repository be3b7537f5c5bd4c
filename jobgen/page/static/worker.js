// Python in a thread of its own: loads Pyodide and jobgen, then answers calls of jobgen.page.compose.
const base = new URL("./", self.location.href);
const report = (text, share) => self.postMessage({ loading: text, share });

// Every file has the bytes that the page was built with, wherever it comes from.
async function verify(files, pyodide) {
  let done = 0;
  const sizes = files.reduce((sum, file) => sum + file.size, 0);
  const plain = self.fetch;
  const known = new Map();
  for (const file of files) {
    const folder = file.of === "pyodide" ? pyodide : base;
    known.set(new URL(file.name, folder).href, file.integrity);
  }
  self.fetch = (what, options) => {
    const integrity = known.get(new URL(what.url ?? what, base).href);
    return plain(what, integrity ? { ...options, integrity } : options);
  };
  await Promise.all(files.map(async (file) => {
    const folder = file.of === "pyodide" ? pyodide : base;
    const answer = await self.fetch(new URL(file.name, folder));
    if (!answer.ok) throw new Error(`${file.name}: ${answer.status}`);
    await answer.arrayBuffer();
    done += file.size;
    report(`Loading ${file.name}`, Math.round(80 * done / sizes));
  }));
}

async function start({ pyodide, files, archive }) {
  const folder = new URL(pyodide, base);
  await verify(files, folder);
  report("Starting Python", 82);
  const { loadPyodide } = await import(new URL("pyodide.mjs", folder));
  const python = await loadPyodide({ indexURL: folder.href });
  report("Starting jobgen", 92);
  const bytes = await (await self.fetch(new URL(archive, base))).arrayBuffer();
  python.FS.mkdirTree("/lib/jobgen");
  python.unpackArchive(bytes, "zip", { extractDir: "/lib/jobgen" });
  python.FS.mkdirTree("/work");
  python.runPython(
    "import os, sys; sys.path.insert(0, '/lib/jobgen'); os.chdir('/work')\n" +
    "sys.dont_write_bytecode = True\n" +
    "from jobgen.page.compose import answer",
  );
  return python.globals.get("answer");
}

let answering;
self.onmessage = async ({ data }) => {
  if (data.start) {
    answering = start(data.start);
    answering.then(
      () => self.postMessage({ ready: true }),
      (error) => self.postMessage({ failed: String(error) }),
    );
    return;
  }
  try {
    const answer = await answering;
    self.postMessage({ id: data.id, answer: JSON.parse(answer(data.call, data.arguments)) });
  } catch (error) {
    self.postMessage({ id: data.id, failed: String(error) });
  }
};
