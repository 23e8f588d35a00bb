/* Python for the playground: loaded once, from this site where it has Pyodide, else from jsDelivr. */
const ELSEWHERE = "https://cdn.jsdelivr.net/npm/pyodide@314.0.7/";
const HERE = new URL("pyodide/", import.meta.url).href;
const PACKAGES = "/lib/python3.14/site-packages";

const fetched = async (name) => {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer;
};

const started = (async () => {
  const own = await fetch(`${HERE}pyodide.mjs`, { method: "HEAD" }).then((answer) => answer.ok, () => false);
  const { loadPyodide } = await import(`${own ? HERE : ELSEWHERE}pyodide.mjs`);
  const python = await loadPyodide();
  postMessage({ state: "Loading amplint…" });
  python.unpackArchive(await (await fetched("amplint.zip")).arrayBuffer(), "zip", { extractDir: PACKAGES });
  python.runPython(await (await fetched("session.py")).text());
  return python.globals.get("answer");
})();

onmessage = async ({ data }) => {
  try {
    const answer = await started;
    postMessage(JSON.parse(answer(data.what, data.code)));
  } catch (failure) {
    postMessage({ failure: String(failure) });
  }
};
