# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from . import basics, ops


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm, with mean and variance over all ranks while training. Ranks may have
    batches of different length, or none."""

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
        """Every rank's mean, variance and count are gathered and combined: sums of squares would
        lose the variance of values far from zero."""
        wide = input if input.dtype in (torch.float32, torch.float64) else input.float()
        axes = [axis for axis in range(input.dim()) if axis != 1]
        count = wide.numel() // wide.size(1)
        if count:
            variance, mean = torch.var_mean(wide, axes, unbiased=False)
        else:
            mean = variance = wide.sum(axes)
        own = torch.cat([mean, variance, wide.new_tensor([float(count)])])
        means, variances, counts = _FromAllRanks.apply(own.unsqueeze(0)).split(
            [self.num_features, self.num_features, 1], 1)
        total = counts.sum()
        mean = (counts * means).sum(0) / total
        variance = (counts * (variances + (means - mean) ** 2)).sum(0) / total
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), float(total.detach()))
        shape = [1, -1] + [1] * (input.dim() - 2)
        output = (wide - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            output = output * self.weight.view(shape) + self.bias.view(shape)
        return output.to(input.dtype)

    def _remember(self, mean, variance, total):
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (total / max(total - 1, 1))
        self.running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        self.running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)


class _FromAllRanks(torch.autograd.Function):
    """Rows of all ranks. The loss is a sum over ranks, so a row's gradients are summed."""

    @staticmethod
    def forward(ctx, row):
        return ops.synchronize(ops.allgather_async(row))

    @staticmethod
    def backward(ctx, grad):
        summed = ops.synchronize(ops.allreduce_async(grad, op=basics.Sum))
        return summed[basics.rank():basics.rank() + 1]
