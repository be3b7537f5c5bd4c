// The page: three panes (form, job.yaml, script) that stay in step. All that is known of jobs comes
// from jobgen's own Python, which runs in worker.js.
const $ = (id) => document.getElementById(id);
const worker = new Worker("worker.js", { type: "module" });
const calls = new Map();
let number = 0;
let last = { script: null };
let ready = false;
// The scheduler that the spec had before its site decided it.
let scheduler = "";
$("unserved").hidden = true;
$("loading").hidden = false;

// --- asking Python ---------------------------------------------------------------

function ask(call, ...words) {
  const id = ++number;
  worker.postMessage({ id, call, arguments: words });
  return new Promise((resolve, reject) => calls.set(id, { resolve, reject }));
}

worker.onmessage = ({ data }) => {
  if (data.loading) return tellProgress(data.loading, data.share);
  if (data.ready) return begin();
  if (data.id === undefined) return tellFailure(data.failed);
  const { resolve, reject } = calls.get(data.id);
  calls.delete(data.id);
  if (data.failed) reject(new Error(data.failed));
  else resolve(data.answer);
};

// Other files may still arrive after one has failed.
let failed = false;
function tellFailure(reason) {
  tellProgress(`Python did not start: ${reason}`, 0);
  failed = true;
}

function tellProgress(text, share) {
  if (failed) return;
  $("loading-text").textContent = text;
  $("progress").value = share;
}

// One question at a time; of those that wait only the latest of a kind matters.
let busy = false;
const waiting = new Map();
async function queue(kind, question) {
  waiting.set(kind, question);
  document.body.dataset.busy = "yes";
  if (busy || !ready) return;
  busy = true;
  while (waiting.size) {
    const [next, asked] = waiting.entries().next().value;
    waiting.delete(next);
    try {
      await asked();
    } catch (error) {
      listProblems([{ line: 0, path: "", text: `jobgen failed: ${error.message}` }]);
    }
  }
  busy = false;
  document.body.dataset.busy = "no";
}

async function begin() {
  ready = true;
  const linked = readLink();
  if (linked !== null) $("yaml").value = linked;
  $("loading").hidden = true;
  queue("compose", compose);
}

// --- from the form and the text --------------------------------------------------

const fields = new Map();
for (const field of document.querySelectorAll(".field")) {
  const input = field.querySelector("input, select, textarea");
  fields.set(field.dataset.path, { field, input, problem: field.querySelector(".problem"), decided: field.querySelector(".decided") });
  input.addEventListener("input", () => {
    queue(field.dataset.path, () => write(field.dataset.path));
  });
}

async function compose() {
  show(await ask("compose", $("yaml").value));
}

async function write(path) {
  const { input } = fields.get(path);
  const value = input.value;
  const plain = ["text", "block"].includes(input.dataset.widget);
  if (path === "site") scheduler = fields.get("scheduler").input.value || scheduler;
  const answer = value.trim() === ""
    ? await ask("edit", $("yaml").value, path, null, scheduler)
    : await ask(plain ? "edit_text" : "edit", $("yaml").value, path, value, scheduler);
  $("yaml").value = answer.text;
  show(answer, input);
}

$("yaml").addEventListener("input", () => queue("compose", compose));

// --- to the page -----------------------------------------------------------------

function show(answer, writing = null) {
  for (const [path, { input }] of fields) {
    if (input === writing) continue;
    const value = answer.values[path] ?? "";
    if (input.value !== value) input.value = value;
    if (input.tagName === "SELECT" && input.value !== value) input.value = "";
    if (input.tagName === "TEXTAREA") input.rows = Math.min(10, Math.max(2, value.split("\n").length));
  }
  for (const [path, { input, decided }] of fields) {
    const choice = input.value === "" ? answer.decided?.[path] : undefined;
    decided.hidden = !choice;
    decided.textContent = choice ? `${choice.value}: ${choice.why}` : "";
  }
  showProblems(answer.problems, answer.notes ?? []);
  showSite(answer.values.site ?? "");
  if (answer.script !== null) showScript(answer);
  markScript(answer.script === null);
  document.body.dataset.state = answer.script === null ? "invalid" : "valid";
}

// While the spec is invalid, the script on show is an earlier one, and says so.
function markScript(old) {
  $("copy-script").disabled = $("save-script").disabled = old;
  $("script-pane").classList.toggle("old", old);
  $("stale").hidden = !old;
  $("stale").textContent = last.script === null
    ? "There is no script until the spec is valid."
    : "This is the script of your last valid spec.";
}

function showProblems(problems, notes) {
  for (const { input, problem } of fields.values()) {
    problem.hidden = true;
    problem.textContent = "";
    input.removeAttribute("aria-invalid");
  }
  for (const { path, text } of problems) {
    const home = nearest(path);
    if (!home) continue;
    home.problem.hidden = false;
    home.problem.textContent += (home.problem.textContent ? "\n" : "") + text;
    home.input.setAttribute("aria-invalid", "true");
    for (let outer = home.field.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
  }
  listProblems(problems, notes);
}

function nearest(path) {
  const words = path.replaceAll("[", ".[").split(".");
  while (words.length) {
    const home = fields.get(words.join("."));
    if (home) return home;
    words.pop();
  }
  return null;
}

function listProblems(problems, notes = []) {
  const told = notes.map((text) => Object.assign(make("p", text), { className: "note" }));
  $("problems").replaceChildren(...told, ...problems.map(({ line, text }) => {
    const row = document.createElement("p");
    if (line) {
      const button = make("button", `Line ${line}`);
      button.type = "button";
      button.addEventListener("click", () => selectLine(line));
      row.append(button, " ");
    }
    row.append(text);
    return row;
  }));
}

function selectLine(line) {
  const lines = $("yaml").value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  $("yaml").focus();
  $("yaml").setSelectionRange(start, start + lines[line - 1].length);
}

function showScript(answer) {
  const lines = answer.script.replace(/\n$/, "").split("\n");
  const before = new Map();
  for (const line of last.script?.split("\n") ?? []) before.set(line, (before.get(line) ?? 0) + 1);
  const reasons = new Map(answer.reasons.map((reason) => [reason.line, reason]));
  const rows = lines.map((text, index) => {
    const row = make("li", text);
    const left = before.get(text) ?? 0;
    if (left) before.set(text, left - 1);
    else if (last.script !== null) row.className = "lit";
    const reason = reasons.get(index + 1);
    if (reason) {
      row.classList.add("why");
      row.tabIndex = 0;
      row.title = reason.why;
      const tell = () => { $("why").textContent = [reason.why, ...reason.origin.map((word) => `from ${word}`)].join("; "); };
      row.addEventListener("focus", tell);
      row.addEventListener("mouseenter", tell);
    }
    return row;
  });
  const first = make("ol");
  first.append(...rows.slice(0, answer.part_2 - 1));
  const parts = [first];
  if (answer.part_2 <= rows.length) {
    const rest = make("ol");
    rest.start = answer.part_2;
    rest.append(...rows.slice(answer.part_2 - 1));
    const folded = make("details");
    folded.open = $("script").querySelector("details")?.open ?? false;
    folded.append(make("summary", "Part 2: the runtime, the same in every such script"), rest);
    parts.push(folded);
  }
  $("script").replaceChildren(...parts);
  $("command").textContent = answer.command;
  $("about").hidden = false;
  $("title").textContent = answer.title;
  $("cost").textContent = answer.cost;
  $("places").textContent = answer.places;
  $("decisions").replaceChildren(...answer.decisions.flatMap((reason) => [
    make("dt", reason.what), make("dd", [reason.why, ...reason.origin.map((word) => `from ${word}`)].join("; ")),
  ]));
  last = answer;
}

function make(tag, text = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

// --- the site --------------------------------------------------------------------

let card = "";
async function showSite(name) {
  if (name === card) return;
  card = name;
  const known = [...$("sites").options].some((option) => option.value === name);
  $("site-card").hidden = !known;
  $("queues").replaceChildren();
  if (!known) return;
  const site = await ask("describe_site", name);
  if (card !== name) return;
  $("queues").append(...site.queues.map((queue) => Object.assign(document.createElement("option"), { value: queue.name })));
  const table = make("table");
  const head = make("tr");
  head.append(...["Queue", "Longest", "Nodes", "GPUs"].map((word) => Object.assign(make("th", word), { scope: "col" })));
  table.append(head, ...site.queues.map((queue) => {
    const row = make("tr");
    const hours = make("td", queue.walltime);
    hours.append(drawBar(queue.share));
    row.append(Object.assign(make("th", queue.name), { scope: "row" }), hours, make("td", queue.nodes), make("td", queue.gpus));
    return row;
  }));
  const facts = make("p", [site.title, site.scheduler, site.node, site.grade].filter(Boolean).join("; "));
  $("site-card").replaceChildren(facts, ...(site.queues.length ? [table] : []), ...site.notes.map((note) => make("p", note)));
}

function drawBar(share) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "0 0 100 4");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(space, "rect");
  bar.setAttribute("width", String(Math.max(1, 100 * share)));
  bar.setAttribute("height", "4");
  drawing.append(bar);
  return drawing;
}

// --- in and out ------------------------------------------------------------------

function save(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function copy(text, what) {
  await navigator.clipboard.writeText(text);
  $("announce").textContent = `${what} copied`;
}

function makeLink() {
  const bytes = new TextEncoder().encode($("yaml").value);
  const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.href.split("#")[0]}#spec=${text}`;
}

function readLink() {
  const match = /^#spec=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (!match) return null;
  try {
    const bytes = atob(match[1].replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)));
  } catch {
    listProblems([{ line: 0, path: "", text: "the link holds no job" }]);
    return null;
  }
}

$("copy-yaml").addEventListener("click", () => copy($("yaml").value, "job.yaml"));
$("save-yaml").addEventListener("click", () => save($("yaml").value, "job.yaml"));
$("copy-script").addEventListener("click", () => copy(last.script, "The script"));
$("save-script").addEventListener("click", () => save(last.script, last.file));
$("copy-link").addEventListener("click", () => {
  const link = makeLink();
  history.replaceState(null, "", link);
  copy(link, "The link");
});
window.addEventListener("hashchange", () => {
  const text = readLink();
  if (text !== null && text !== $("yaml").value) {
    $("yaml").value = text;
    queue("compose", compose);
  }
});

async function open(file) {
  const text = await file.text();
  if (/\.ya?ml$/.test(file.name)) {
    $("yaml").value = text;
    $("findings").replaceChildren();
    queue("compose", compose);
    return;
  }
  queue("script", async () => {
    const answer = await ask("read_script", file.name, text);
    showFindings(file.name, answer);
    if (answer.text !== null) {
      $("yaml").value = answer.text;
      await compose();
    }
  });
}

function showFindings(name, answer) {
  const parts = [make("h3", `${name}: ${answer.findings.length} findings`)];
  const list = make("ul");
  list.append(...answer.findings.map(({ line, rule, text }) => make("li", `line ${line}: ${text} [${rule}]`)));
  parts.push(list);
  if (answer.losses.length) {
    const losses = make("ul");
    losses.append(...answer.losses.map((text) => make("li", text)));
    parts.push(make("h3", "What the import could not express"), losses);
  }
  for (const problem of answer.problems) parts.push(make("p", problem.text));
  for (const [scheduler, script] of Object.entries(answer.scripts ?? {})) {
    if (!script) continue;
    const folded = make("details");
    const shown = make("pre", script);
    shown.tabIndex = 0;
    folded.append(make("summary", `The same job for ${scheduler}`), shown);
    parts.push(folded);
  }
  $("findings").replaceChildren(...parts);
}

$("file").addEventListener("change", () => { if ($("file").files[0]) open($("file").files[0]); });
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
}
for (const name of ["dragleave", "drop"]) {
  document.addEventListener(name, (event) => { event.preventDefault(); document.body.classList.remove("dropping"); });
}
document.addEventListener("drop", (event) => { if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]); });

// For whoever measures or scripts the page.
window.jobgenPage = { ask };

fetch("manifest.json").then((answer) => answer.json()).then((manifest) => worker.postMessage({ start: manifest }));
