-- A hook file returns a table of functions; each takes the place of a part of the training.
local nn = require "nn"

return {
  -- Called once. cfg.features are the sizes of a sample, cfg.outputs the number of classes.
  model = function(cfg)
    return nn.Sequential{
      nn.Linear(cfg.features[1], cfg.vars.width),
      nn.ReLU(),
      nn.Dropout(0.2),
      nn.Linear(cfg.vars.width, cfg.outputs),
    }
  end,

  -- Called for each batch. It records operations and computes nothing. One loss for each sample
  -- makes the gradient exact whatever the batches: padding never counts.
  training_step = function(acc, batch)
    local logits = acc.model(batch.features)
    local loss = nn.cross_entropy(logits, batch.labels, {reduction = "none"})
    -- The confidence penalty of Pereyra et al. (2017): less certain where there is little to be certain of.
    local log_p = logits:log_softmax()
    local entropy = -(log_p:exp() * log_p):sum(2)
    return {
      loss = loss - acc.vars.confidence * entropy,
      entropy = entropy,                                  -- recorded as train/entropy
      accuracy = logits:argmax():eq(batch.labels),        -- and train/accuracy
    }
  end,

  on_epoch_end = function(acc)
    if (acc.metrics["eval/accuracy"] or 0) > 0.99 then
      acc:print("good enough after epoch " .. acc.epoch)
      acc:set_trigger()                                   -- ends the run, its state saved
    end
  end,
}
