# SPDX-License-Identifier: Apache-2.0
"""Stores with codecs between real processes: losses, bits on all workers, and texts of refusals.

Labels: asan tsan sync
Needs: tutti-store_train
Timeout: 300
"""
import functools
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_train")


def train(test, policy, update, codec, servers=1, workers=3, iterations=40, **variables):
    """The loss and the bits of each worker."""
    arguments = [policy, update, codec, str(iterations), "70001"]
    with Job(workers, servers, lambda rank: arguments, variables) as job:
        test.assertEqual(job.codes(), [0] * (workers + servers),
                         [rank.story() for rank in job])
        return [(float(job[rank].expect("^loss (.*)$")[1]), job[rank].expect("^bits (.*)$")[1])
                for rank in range(workers)]


class Losses(unittest.TestCase):
    def test_feedback_trains_to_the_loss_of_none(self):
        for policy, update, bound in (("bulk", "sum", 0.01), ("bulk", "sgd:lr=0.2", 0.01),
                                      ("stale:2", "sgd:lr=0.2", 0.05)):
            plain = train(self, policy, update, "none")
            for codec in ("int8", "int4", "qsgd:ef=on"):
                with self.subTest(policy=policy, update=update, codec=codec):
                    coded = train(self, policy, update, codec)
                    loss, wanted = coded[0][0], plain[0][0]
                    print(f"{policy} {update} {codec}: loss {loss}, none {wanted}")
                    self.assertLess(abs(loss - wanted), bound * wanted)

    def test_a_quorum_trains(self):
        """Worker 2 may be late for all 40 iterations; then its last push has 40 gradients, and may
        count. A step of the rate 0.03 does not overshoot by that."""
        start = train(self, "bulk", "sgd:lr=0", "none", iterations=1)[0][0]
        for loss, _ in train(self, "quorum:2", "sgd:lr=0.03", "int8"):
            self.assertLess(loss, 0.7 * start)

    def test_bits_are_those_of_all_workers_and_of_any_number_of_servers(self):
        for update in ("sum", "sgd:lr=0.2"):
            for codec in ("int8", "sign"):
                with self.subTest(update=update, codec=codec):
                    bits = {pair[1] for servers, transport in ((0, "shm"), (1, "tcp"), (3, "shm"))
                            for pair in train(self, "bulk", update, codec, servers,
                                              TUTTI_TRANSPORT=transport)}
                    self.assertEqual(len(bits), 1, bits)


class Deaths(unittest.TestCase):
    def test_a_killed_server_is_named_with_every_update_that_has_state(self):
        """In the middle of iterations: workers hold after 20 of 40 until it has ended."""
        for policy, update, codec in (("bulk", "sgd:lr=0.1", "none"),
                                      ("stale:2", "momentum:lr=0.01", "int8"),
                                      ("async", "adam:lr=0.01", "none"),
                                      ("quorum:2", "sgd:lr=0.1", "int8")):
            with self.subTest(policy=policy, update=update, codec=codec), \
                    Job(3, 2, [policy, update, codec, 40, 70001, "hold=20"]) as job:
                job[0].expect("^going$")
                for rank in job.lose(3):
                    self.assertEqual(rank.code(), 7, rank.story())
                    rank.expect(r"^failed -6 server 0 \(rank 3\) is gone")


class Refused(unittest.TestCase):
    def refuse(self, arguments, *words):
        with Job(2, 2, arguments) as job:
            for rank in (job[0], job[1]):
                self.assertEqual(rank.code(), 7, rank.story())
                line = rank.expect("^failed ").string
                for word in words:
                    self.assertIn(word, line)

    def test_codecs(self):
        for codec, words in (("int8sum", ("codec int8sum", "use int8")),
                             ("int8:ef=21", ("ef=21", "use ef=on")),
                             ("itn8", ("itn8", "did you mean 'int8'"))):
            self.refuse(lambda rank, codec=codec: ["bulk", "sum", codec, "5", "10"], *words)
        self.refuse(lambda rank: ["bulk", "sum", ["int8", "fp16"][rank], "5", "10"],
                    "codec=int8", "codec=fp16", "use the same on all")


if __name__ == "__main__":
    unittest.main()
