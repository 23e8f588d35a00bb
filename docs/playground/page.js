/* The playground: amplint in a worker, started by the first click and again after a crash. */
(() => {
  const root = document.getElementById("playground");
  if (!root) return;
  const at = (id) => document.getElementById(id);
  const buttons = ["lint", "fix", "convert"].map(at);
  const here = new URL("playground/", root.ownerDocument.baseURI.replace(/playground\/.*$/, ""));
  let worker = null;

  at("code").value = `import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for batch in torch.randn(4, 16, 8, device="cuda"):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).square().mean()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
`;

  const idle = (text) => {
    at("state").textContent = text;
    at("lint").textContent = worker ? "Lint" : "Load Python and lint";
    at("lint").disabled = false;
    at("fix").disabled = at("convert").disabled = !worker;
  };

  const crashed = (text) => {
    worker?.terminate();
    worker = null;
    at("result").textContent = text;
    idle("Python has ended. The button starts it again.");
  };

  const answered = ({ data }) => {
    if (data.state) at("state").textContent = data.state;
    else if (data.failure) crashed(data.failure);
    else {
      if (data.code !== undefined) at("code").value = data.code;
      at("result").textContent = data.text;
      idle(data.told);
    }
  };

  const ask = (what) => {
    buttons.forEach((button) => { button.disabled = true; });
    at("state").textContent = worker ? "Working…" : "Loading Python…";
    if (!worker) {
      worker = new Worker(new URL("worker.js", here), { type: "module" });
      worker.onmessage = answered;
      worker.onerror = (event) => crashed(event.message || "The worker could not be started.");
    }
    worker.postMessage({ what, code: at("code").value });
  };

  for (const button of buttons) button.addEventListener("click", () => ask(button.id));
})();
