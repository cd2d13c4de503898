# SPDX-License-Identifier: Apache-2.0
#
# An unchanged script with DistributedOptimizer under TUTTI_SUM=server, without servers and with
# one: all ranks have the bits of the run without it, and gradients were not negotiated.
# Labels: python sync
# Timeout: 300
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

cat >"$room/train.py" <<'SCRIPT'
import hashlib, torch
import tutti.torch as hvd
hvd.init()
torch.manual_seed(hvd.rank())  # rank 0's first values count
model = torch.nn.Sequential(torch.nn.Linear(60, 300), torch.nn.Tanh(), torch.nn.Linear(300, 100),
                            torch.nn.Tanh(), torch.nn.Linear(100, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
first, last = None, None
before = hvd.counters()
for step in range(12):
    generator = torch.Generator().manual_seed(100 * step + hvd.rank())
    inputs = torch.randn(16, 60, generator=generator)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), inputs[:, :4].sin())
    loss.backward()
    optimizer.step()
    last = float(hvd.allreduce(loss.detach(), name="loss"))
    first = last if first is None else first
after = hvd.counters()
negotiated = sum(after[key] - before[key] for key in ("agreed", "planned"))
hvd.allreduce(torch.ones(3))  # its name is used once, so owners do not get it
assert sum(hvd.counters()[key] - after[key] for key in ("agreed", "planned")) == 1
digest = hashlib.sha256()
for name, tensor in sorted(model.state_dict().items()):
    digest.update(tensor.numpy().tobytes())
assert last < first, (first, last)
print(f"rank {hvd.rank()} of {hvd.size()} negotiated {negotiated > 0} bits {digest.hexdigest()}\n",
      end="", flush=True)  # one write
hvd.shutdown()
SCRIPT

# Both runs of it in one process, which imports PyTorch once.
cat >"$room/twice.py" <<'SCRIPT'
import os, runpy
for sum in "allreduce", "server":
    os.environ["TUTTI_SUM"] = sum
    runpy.run_path(os.path.join(os.path.dirname(__file__), "train.py"))
SCRIPT

# train SCRIPT SERVERS: the lines of all ranks.
train() {
    timeout 100 "$TEST_BIN/tutti" run --no-prefix -n 3 --servers "$2" "$python" "$room/$1" \
        >"$room/output" 2>"$room/log" || {
        cat "$room/output" "$room/log"
        exit 1
    }
    grep '^rank ' "$room/output" | sort
}

train twice.py 0 >"$room/lines"
grep 'negotiated True' "$room/lines" >"$room/plain"
grep 'negotiated False' "$room/lines" >"$room/served"
[ "$(grep -c '^rank [012] of 3 ' "$room/plain")" = 3 ]
[ "$(sed 's/.* bits //' "$room/plain" | sort -u | wc -l)" = 1 ]
sed 's/negotiated True/negotiated False/' "$room/plain" >"$room/wanted"
diff "$room/wanted" "$room/served"
export TUTTI_SUM=server # a job with servers is joined once
train train.py 1 >"$room/served"
diff "$room/wanted" "$room/served"
