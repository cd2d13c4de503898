# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from . import basics, ops


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm, with mean and variance over all ranks while training."""

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        is_training = self.training or not self.track_running_stats
        if not is_training or not basics.is_initialized() or basics.size() == 1:
            return super().forward(input)
        if self.training and self.track_running_stats:
            self.num_batches_tracked = self.num_batches_tracked + 1
        return self._normalise(input)

    def _normalise(self, input):
        axes = [axis for axis in range(input.dim()) if axis != 1]
        count = input.new_tensor([input.numel() / input.size(1)])
        sums = torch.cat([input.sum(axes), (input * input).sum(axes), count])
        sums = _SumOverRanks.apply(sums)
        features = self.num_features
        total = sums[-1]
        mean = sums[:features] / total
        variance = (sums[features:2 * features] / total - mean * mean).clamp(min=0)
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), float(total.detach()))
        shape = [1, -1] + [1] * (input.dim() - 2)
        output = (input - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            output = output * self.weight.view(shape) + self.bias.view(shape)
        return output

    def _remember(self, mean, variance, total):
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (total / max(total - 1, 1))
        self.running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        self.running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)


class _SumOverRanks(torch.autograd.Function):
    """The loss is a sum over ranks, so the gradient of a sum is summed as well."""

    @staticmethod
    def forward(ctx, sums):
        return ops.allreduce(sums, op=basics.Sum)

    @staticmethod
    def backward(ctx, grad):
        return ops.allreduce(grad, op=basics.Sum)
