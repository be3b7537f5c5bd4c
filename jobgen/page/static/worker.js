// Python in its own thread: loads Pyodide and jobgen, then answers calls of jobgen.page.compose.
const base = new URL("./", self.location.href);
const types = { mjs: "text/javascript", wasm: "application/wasm", zip: "application/zip", json: "application/json" };
const report = (text, share) => self.postMessage({ loading: text, share });

// Fetch each file once and compare it with the digest that the page was built with. From then on the
// checked bytes are used and never the address, so a server cannot send other bytes later.
async function fetchFiles(files, pyodide) {
  const sizes = files.reduce((sum, file) => sum + file.size, 0);
  const held = new Map();
  let done = 0;
  await Promise.all(files.map(async ({ name, of, size, integrity }) => {
    const address = new URL(name, of === "pyodide" ? pyodide : base).href;
    const answer = await fetch(address, { integrity }).catch(() => {
      throw new Error(`${address} cannot be loaded, or is not the file that this page was built with`);
    });
    if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
    held.set(address, new Blob([await answer.arrayBuffer()], { type: types[name.split(".").pop()] }));
    done += size;
    report(`Loading ${name}`, Math.round(80 * done / sizes));
  }));
  return held;
}

async function start({ pyodide, files, archive }) {
  const folder = new URL(pyodide, base);
  const held = await fetchFiles(files, folder);
  const take = (address) => {
    const blob = held.get(new URL(address, base).href);
    if (!blob) throw new Error(`${address} is not a file of this page`);
    return blob;
  };
  // Pyodide fetches its other files by their addresses.
  self.fetch = async (what) => new Response(take(what.url ?? what));
  const importHeld = (name) => import(URL.createObjectURL(take(new URL(name, folder))));
  report("Starting Python", 82);
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all(
    ["pyodide.mjs", "pyodide.asm.mjs"].map(importHeld),
  );
  const python = await loadPyodide({ indexURL: folder.href, createPyodideModule });
  report("Starting jobgen", 92);
  const bytes = await take(archive).arrayBuffer();
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
    // JSON on both ways: Pyodide has its own null, which is not Python's None.
    self.postMessage({ id: data.id, answer: JSON.parse(answer(data.call, JSON.stringify(data.arguments))) });
  } catch (error) {
    self.postMessage({ id: data.id, failed: String(error) });
  }
};
