-- A training loop that goes back to its best state whenever an epoch made the model worse.
local nn = require "nn"

-- Accumulates the gradients of one batch, and updates the weights after the last batch of an optimizer step.
local function training_step(acc, batch)
  local loss = nn.cross_entropy(acc.model(batch.features), batch.labels)
  acc:backward(loss)
  if acc.sync_gradients then acc:clip_grad_norm(1.0) end
  acc.optimizer:step()
  acc.scheduler:step()
  acc.optimizer:zero_grad()
end

-- The share of correct classes in the evaluation data of all processes.
local function accuracy(acc)
  local right, count = 0, 0
  for batch in acc:batches("eval") do
    right = right + (acc.model(batch.features):argmax():eq(batch.labels) * batch.mask):sum():item()
    count = count + batch.mask:sum():item()
  end
  local all = acc:reduce({right = right, count = count}, "sum")
  return all.right / all.count
end

return {
  train = function(acc)
    local best = {accuracy = 0}
    local reverted = 0
    acc:register_for_checkpointing(best)   -- saved and loaded with the state
    for epoch in acc:epochs() do
      for batch in acc:batches("train") do
        acc:accumulate(function() training_step(acc, batch) end)
      end
      local now = accuracy(acc)
      if now >= best.accuracy then
        best.accuracy = now
        acc:save_state()                   -- at the end of this optimizer step
      else
        acc:load_state()                   -- the newest one: weights, momentum, `best`
        reverted = reverted + 1
      end
      acc:log{accuracy = now, reverted = reverted}
    end
  end,
}
