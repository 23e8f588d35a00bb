// Starts `amplint server` and hands it what VS Code's settings say.

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SECTION = "amplint";
const NAMES = ["select", "extendSelect", "ignore", "minSeverity", "unsafeFixes", "torchVersion", "isolated"];
let client;

function settings() {
  const configured = workspace.getConfiguration(SECTION);
  return Object.fromEntries(NAMES.map((name) => [name, configured.get(name)]).filter(([, value]) => value != null));
}

async function start() {
  const [command, ...args] = workspace.getConfiguration(SECTION).get("command");
  client = new LanguageClient(
    SECTION,
    "amplint",
    { command, args },
    {
      documentSelector: [
        { scheme: "file", language: "python" },
        { scheme: "untitled", language: "python" },
        { notebook: { notebookType: "jupyter-notebook" }, language: "python" },
      ],
      initializationOptions: { settings: settings() },
    },
  );
  try {
    await client.start();
  } catch (failure) {
    const hint = 'pip install "amplint[server]", or name its place in amplint.command';
    window.showErrorMessage(`amplint: ${command} does not start (${failure?.message ?? failure ?? "not found"}): ${hint}`);
    client = undefined;
  }
}

async function stop() {
  const stopped = client;
  client = undefined;
  await stopped?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(commands.registerCommand("amplint.restart", restart));
  context.subscriptions.push(
    workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("amplint.command")) {
        await restart();
      } else if (event.affectsConfiguration(SECTION)) {
        await client?.sendNotification("workspace/didChangeConfiguration", { settings: { amplint: settings() } });
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
