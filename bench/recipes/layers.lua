-- A GPT of 12 layers, small enough that compiling it is what takes time: width 64, 4 heads, tokens of a text.
local nn = require "nn"

local width, heads, layers = 64, 4, 12

local function attention(self, x)
  local batch, length = x:size(1), x:size(2)
  local function by_head(part) return part:reshape(batch, length, heads, width // heads):transpose(2, 3) end
  local q, k, v = by_head(self.query(x)), by_head(self.key(x)), by_head(self.value(x))
  local scores = q:matmul(k:t()) / math.sqrt(width // heads)
  local future = scores:ones_like():tril():eq(0)
  local weights = scores:masked_fill(future, -1e9):softmax()
  return self.out(weights:matmul(v):transpose(2, 3):reshape(batch, length, width))
end

local function block()
  return nn.Module{
    norm1 = nn.LayerNorm(width), norm2 = nn.LayerNorm(width),
    query = nn.Linear(width, width), key = nn.Linear(width, width), value = nn.Linear(width, width),
    out = nn.Linear(width, width), up = nn.Linear(width, 4 * width), down = nn.Linear(4 * width, width),
    forward = function(self, x)
      x = x + attention(self, self.norm1(x))
      return x + self.down(self.up(self.norm2(x)):gelu())
    end,
  }
end

return {
  model = function(cfg)
    local blocks = {}
    for layer = 1, layers do blocks[layer] = block() end
    blocks[layers + 1] = nn.LayerNorm(width)
    return nn.Module{
      tokens = nn.Embedding(cfg.outputs, width), places = nn.Embedding(64, width),
      blocks = nn.Sequential(blocks), head = nn.Linear(width, cfg.outputs),
      forward = function(self, ids)
        local places = nn.arange(ids:size(2))
        return self.head(self.blocks(self.tokens(ids) + self.places(places)))
      end,
    }
  end,
}
