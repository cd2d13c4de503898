# SPDX-License-Identifier: Apache-2.0
#
# The examples for PyTorch learn what they are to learn.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch
run() {
    "$TEST_BIN/tutti" run --no-prefix -n 2 "$python" "$TEST_SOURCE/examples/$1" "${@:2}" |
        tee out.txt
}
cd "$(mktemp -d)"
run 05_torch.py --steps 150
percent=$(sed -n 's/.*ranks: \([0-9]*\)\.[0-9]* % .*/\1/p' out.txt)
[ "$percent" -ge 60 ] # guessing gives 33
run 06_images.py --epochs 3
percent=$(sed -n 's/epoch 2: \([0-9]*\)\.[0-9]* % .*/\1/p' out.txt)
[ "$percent" -ge 50 ] # guessing gives 25
run 07_char_gpt.py --steps 21
awk '/^step/ { loss = $4; if (!first) first = loss } END { exit !(loss < first - 0.5) }' out.txt
run 10_compressed.py --steps 60
# exact, then three with codecs: less than a third of the bytes, and about the same loss
awk '{ loss[NR] = $NF; sent[NR] = $(NF - 7) }
     END { for (i = 2; i <= 4; i++)
               if (sent[i] * 3 > sent[1] || loss[i] > loss[1] * 1.1) exit 1
           exit NR != 4 }' out.txt
"$TEST_BIN/tutti" run --no-prefix -n 2 --servers 2 "$python" \
    "$TEST_SOURCE/examples/13_stale.py" --steps 40 | tee out.txt
# the loss falls under each policy
awk '$NF < $(NF - 2) * 0.8 { fell++ } END { exit fell != 2 }' out.txt
rm -f out.txt
