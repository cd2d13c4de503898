# SPDX-License-Identifier: Apache-2.0
#
# Accelerate, Transformers and Lightning train under plain `tutti run`, as docs/python.md says.
#
# They have a virtual environment of their own, made once, beside the newest PyTorch's. Models are
# tiny and made from nothing: no hub is asked.
# Labels: check
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy
newest=$python
trainers=$TEST_BUILD/python-trainers
packages=(accelerate==1.15.0 transformers==5.22.2 lightning==2.6.6)

make_trainers() {
    rm -rf "$trainers"
    "$newest" -m venv --without-pip "$trainers"
    "$newest" -c 'import site; print(site.getsitepackages()[0])' \
        >"$("$trainers/bin/python" -c 'import site; print(site.getsitepackages()[0])')/newest.pth"
    timeout 240 "$trainers/bin/python" -m pip install -q "${packages[@]}"
}

if [ ! -e "$trainers/made" ]; then
    if ! make_trainers >"$trainers.log" 2>&1; then
        tail -n 3 "$trainers.log"
        rm -rf "$trainers"
        printf 'skipped: pip cannot install %s\n' "${packages[*]}"
        exit 77
    fi
    touch "$trainers/made"
fi
python=$trainers/bin/python
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cd "$room"
export HF_HUB_OFFLINE=1
wheel_entry_points "$room/site"
export PYTHONPATH=$room/site:$PYTHONPATH

# documented TEXT: what the scripts below write stands in the guide, word for word.
documented() {
    if ! grep -qF -- "$1" "$TEST_SOURCE/docs/python.md"; then
        printf 'docs/python.md does not say: %s\n' "$1"
        exit 1
    fi
}

documented '`torch.distributed.init_process_group("tutti")` before `Accelerator(cpu=True)`'
cat >accelerate_train.py <<'SCRIPT'
import torch
from accelerate import Accelerator
torch.distributed.init_process_group("tutti")
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = torch.utils.data.DataLoader(data, batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
steps = 0
for sample, target in loader:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(sample), target))
    optimizer.step()
    steps += 1
assert (accelerator.num_processes, steps) == (2, 4), (accelerator.num_processes, steps)
SCRIPT

documented '("tutti")` before `TrainingArguments(..., use_cpu=True)`'
cat >transformers_train.py <<'SCRIPT'
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.distributed.init_process_group("tutti")
arguments = TrainingArguments("out", use_cpu=True, max_steps=3, per_device_train_batch_size=2,
                              report_to=[], save_strategy="no", disable_tqdm=True)
torch.manual_seed(torch.distributed.get_rank())
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2,
                                   bos_token_id=0, eos_token_id=0))
samples = [torch.randint(32, (8,)) for _ in range(32)]
trainer = Trainer(model, arguments,
                  train_dataset=[{"input_ids": sample, "labels": sample} for sample in samples])
trainer.train()
assert (arguments.world_size, trainer.state.global_step) == (2, 3)
SCRIPT

documented 'Trainer(strategy=DDPStrategy(process_group_backend="tutti"), accelerator="cpu",'
cat >lightning_train.py <<'SCRIPT'
import sys
import torch
import lightning
from lightning.pytorch.strategies import DDPStrategy
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 4))
nodes = int(sys.argv[1])
trainer = lightning.Trainer(strategy=DDPStrategy(process_group_backend="tutti"), accelerator="cpu",
                            devices=2 // nodes, num_nodes=nodes, max_epochs=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
model = Model()
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8))
assert (trainer.world_size, trainer.global_step) == (2, 4), trainer.global_step
SCRIPT

# Ranks began with other parameters or saw other data; after training they have the same ones.
cat >same.txt <<'SCRIPT'
mine = torch.cat([value.detach().flatten() for value in model.parameters()])
all_of_them = [torch.empty_like(mine) for _ in range(2)]
torch.distributed.all_gather(all_of_them, mine)
assert torch.isfinite(mine).all() and torch.equal(*all_of_them), all_of_them
print(f"trained on {torch.distributed.get_backend()}\n", end="", flush=True)  # one write
torch.distributed.destroy_process_group()
SCRIPT

# check OPTIONS... SCRIPT ARGUMENT: two ranks of it.
check() {
    local options=("${@:1:$#-2}") script=${*: -2:1}
    cat "$script" same.txt >train.py
    if ! timeout 150 "$TEST_BIN/tutti" run "${options[@]}" "$python" train.py "${*: -1}" \
        >output 2>&1 || [ "$(grep -c 'trained on tutti' output)" != 2 ]; then
        printf '%s (%s):\n' "$script" "${options[*]}"
        tail -n 30 output
        exit 1
    fi
}

check -n 2 accelerate_train.py -
check -n 2 transformers_train.py -
check -n 2 lightning_train.py 1
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >rsh
chmod +x rsh
check -H east:1,west:1 --rsh ./rsh lightning_train.py 2
