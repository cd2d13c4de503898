# SPDX-License-Identifier: Apache-2.0
"""Gradients of known models, and a module that makes them at next to no cost."""


def resnet50():
    """Shapes of ResNet50's 161 gradients, last layer first, as autograd yields them."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    width_in = 64
    for blocks, width in [(3, 64), (4, 128), (6, 256), (3, 512)]:
        for block in range(blocks):
            for shape in ((width, width_in, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)):
                shapes += [shape, (shape[0],), (shape[0],)]
            if block == 0:
                shapes += [(4 * width, width_in, 1, 1), (4 * width,), (4 * width,)]
            width_in = 4 * width
    return (shapes + [(1000, 2048), (1000,)])[::-1]


def bert():
    """Shapes of the 206 gradients of BERT-base as it is pre-trained, last layer first. The head
    that predicts words shares its matrix with the first layer."""
    shapes = [(30522, 768), (512, 768), (2, 768), (768,), (768,)]
    for _ in range(12):
        shapes += [(768, 768), (768,)] * 4 + [(768,), (768,)]
        shapes += [(3072, 768), (3072,), (768, 3072), (768,), (768,), (768,)]
    pooler, words = [(768, 768), (768,)], [(768, 768), (768,), (768,), (768,), (30522,)]
    return (shapes + pooler + words + [(2, 768), (2,)])[::-1]


MODELS = {"resnet50": resnet50, "bert": bert}


def module_of(shapes):
    """A module with these parameters, whose backward yields their gradients in this order."""
    import torch

    class Gradients(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.ParameterList(
                [torch.nn.Parameter(torch.ones(shape)) for shape in shapes])

        def forward(self, scale):
            return sum((weight * scale).sum() for weight in reversed(list(self.weights)))

    return Gradients()
