# SPDX-License-Identifier: Apache-2.0
"""A character transformer, as small as a benchmark needs it."""


def small_gpt(torch, letters, context, width, layers):
    """The same parameters in every process."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.Linear(width, 3 * width)
            self.joined = nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            query, key, value = (part.view(batch, length, 4, width // 4).transpose(1, 2)
                                 for part in self.attention(self.before(x)).split(width, 2))
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.joined(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters = nn.Embedding(letters, width)
            self.places = nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last = nn.LayerNorm(width)
            self.head = nn.Linear(width, letters)

        def forward(self, text):
            x = self.letters(text) + self.places(torch.arange(text.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    torch.manual_seed(1)
    return Model()
