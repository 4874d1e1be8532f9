-- Trains a GAN: the generator draws points, the discriminator classifies points as real or generated.
local nn, optim = require "nn", require "optim"

local modes, radius = 8, 2

local centres = {}  -- x, y of each Gaussian
for i = 0, modes - 1 do
  local angle = 2 * math.pi * i / modes
  centres[#centres + 1] = radius * math.cos(angle)
  centres[#centres + 1] = radius * math.sin(angle)
end

local function perceptron(inputs, width, outputs)
  return nn.Sequential{
    nn.Linear(inputs, width), nn.ReLU(),
    nn.Linear(width, width), nn.ReLU(),
    nn.Linear(width, outputs),
  }
end

-- A label picks the Gaussian, nn.randn the point.
local function real_points(acc, batch)
  local centre = batch.labels:one_hot(modes):matmul(nn.tensor(centres):reshape(modes, 2))
  return centre + nn.randn(batch.size, 2) * acc.vars.spread
end

local function fake_points(acc, count)
  return acc.model.generator(nn.randn(count, acc.vars.noise))
end

-- How many Gaussians have at least 1 % of the generator's samples near them, and the fraction of samples near any.
local function found(acc)
  local near = {}
  local points = fake_points(acc, 1024):tolist()
  for _, point in ipairs(points) do
    for i = 1, modes do
      local dx, dy = point[1] - centres[2 * i - 1], point[2] - centres[2 * i]
      if dx * dx + dy * dy < (3 * acc.vars.spread) ^ 2 then near[i] = (near[i] or 0) + 1 end
    end
  end
  local count, all = 0, 0
  for i = 1, modes do
    if (near[i] or 0) >= #points / 100 then count = count + 1 end
    all = all + (near[i] or 0)
  end
  return count, all / #points
end

return {
  model = function(cfg)
    return {
      generator = perceptron(cfg.vars.noise, cfg.vars.width, 2),
      discriminator = perceptron(2, cfg.vars.width, 1),
    }
  end,

  optimizers = function(model)
    return {
      generator = optim.Adam(model.generator, {betas = {0.5, 0.999}}),
      discriminator = optim.Adam(model.discriminator, {betas = {0.5, 0.999}}),
    }
  end,

  train = function(acc)
    local generator, discriminator = acc.optimizers.generator, acc.optimizers.discriminator
    for epoch in acc:epochs() do
      for batch in acc:batches("train") do
        local fake = fake_points(acc, batch.size)

        -- The discriminator: real points are 1, fake ones 0. detach() keeps its loss from teaching the generator.
        local on_real = acc.model.discriminator(real_points(acc, batch))
        local on_fake = acc.model.discriminator(fake:detach())
        local d_loss = nn.bce_with_logits(on_real, on_real:ones_like()) + nn.bce_with_logits(on_fake, on_fake:zeros_like())
        discriminator:zero_grad()
        acc:backward(d_loss)
        discriminator:step()

        -- The generator: the current discriminator should classify its points as real.
        local judged = acc.model.discriminator(fake)
        local g_loss = nn.bce_with_logits(judged, judged:ones_like())
        generator:zero_grad()
        acc:backward(g_loss)
        generator:step()
        discriminator:zero_grad()  -- the gradients of the generator's loss

        acc:log{["gan/generator_loss"] = g_loss, ["gan/discriminator_loss"] = d_loss}
      end
      local count, near = found(acc)
      acc:log{["gan/modes"] = count, ["gan/near"] = near}
    end
  end,
}
