"""Q-learning from a replay memory, with a target network that is copied now and then and gradients clamped by value."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))
GAMMA, BATCH, COPY_EVERY = 0.9, 24, 10
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
losses = []


class Memory:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def push(self, *what):
        self.items.append(Transition(*what))

    def sample(self, count):
        return Transition(*zip(*random.sample(list(self.items), count)))

    def __len__(self):
        return len(self.items)


class Corridor:
    """Seven fields in a row; the right end pays."""

    def reset(self):
        self.at = 3
        return self._seen()

    def step(self, action):
        self.at += 1 if action == 1 else -1
        done = self.at in (0, 6)
        return self._seen(), float(self.at == 6), done

    def _seen(self):
        return F.one_hot(torch.tensor(self.at), 7).float()


def build():
    return nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)


random.seed(3)
torch.manual_seed(3)
policy_net, target_net = build(), build()
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = torch.optim.RMSprop(policy_net.parameters(), lr=5e-4)
memory = Memory(400)


def select_action(state, epsilon):
    if random.random() < epsilon:
        return random.randrange(2)
    with torch.no_grad():
        return policy_net(state.to(device)).argmax().item()


def optimize_model():
    if len(memory) < BATCH:
        return None
    batch = memory.sample(BATCH)
    states = torch.stack(batch.state).to(device)
    actions = torch.tensor(batch.action, device=device)[:, None]
    rewards = torch.tensor(batch.reward, device=device)
    alive = 1.0 - torch.tensor(batch.done, dtype=torch.float32, device=device)
    following = torch.stack(batch.next_state).to(device)

    q = policy_net(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = target_net(following).max(1).values
    expected = rewards + GAMMA * best * alive
    loss = F.smooth_l1_loss(q, expected)

    optimizer.zero_grad()
    loss.backward()
    for param in policy_net.parameters():
        param.grad.data.clamp_(-1, 1)
    optimizer.step()
    return loss.item()


env = Corridor()
state = env.reset()
while len(losses) < 50:
    action = select_action(state, epsilon=1.0)
    next_state, reward, done = env.step(action)
    memory.push(state, action, reward, next_state, done)
    state = env.reset() if done else next_state
    value = optimize_model()
    if value is not None:
        losses.append(value)
        if len(losses) % COPY_EVERY == 0:
            target_net.load_state_dict(policy_net.state_dict())
