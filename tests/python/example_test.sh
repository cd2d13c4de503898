# SPDX-License-Identifier: Apache-2.0
#
# The example for PyTorch learns what it is to learn.
# Labels: python
. "$TUTTI_SOURCE/tests/python/suite.sh"
needs torch
"$TUTTI_BIN/tutti" run -n 2 "$python" "$TUTTI_SOURCE/examples/05_torch.py" --steps 150 | tee out.txt
percent=$(sed -n 's/.*ranks: \([0-9]*\)\.[0-9]* % .*/\1/p' out.txt)
rm -f out.txt
[ "$percent" -ge 60 ] # guessing gives 33
