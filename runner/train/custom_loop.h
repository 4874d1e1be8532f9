// A training loop that a hook drives: windows, batches and updates happen when the hook asks for them.
//
// What the hook computes is recorded into a Segment, which runs when the next batch is asked for or at another cut; so
// nothing that the hook sees depends on when the device works.  The run around it logs, evaluates and saves at the end
// of each window as it does in a declared loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/loader.h"
#include "runner/train/segment.h"
#include "runner/train/session.h"

namespace runner::train {

// The run around a loop.
class LoopHost {
 public:
  virtual ~LoopHost() = default;
  virtual data::Position position() const = 0;       // of the next batch
  virtual data::LoaderSpec loader_spec() const = 0;  // from there on
  virtual void set_position(const data::Position& position) = 0;
  virtual bool finished() const = 0;     // the last step is done
  virtual bool interrupted() const = 0;  // from outside
  virtual void settle() = 0;             // nothing belongs to the last window any more
  virtual void begin_window() = 0;       // settles, too
  // A window is not finite.  Throws where that ends the run; `untouched`: nothing has been updated in it.
  virtual void not_finite(const NotFinite& found, bool untouched) = 0;
  virtual void end_window(const Trainer::Window& window, double lr) = 0;
  virtual void point(const std::string& name, double value) = 0;  // at the end of the window
  virtual void save_soon() = 0;                                   // when the window is settled
  // Throws where the run has no such state (none: no state at all).
  virtual void check_state(std::optional<int64_t> state) = 0;
  virtual void load(std::optional<int64_t> state) = 0;
};

class CustomLoop : public LoopControl {
 public:
  // All must outlive the loop.
  CustomLoop(Session& session, Hooks& hooks, LoopHost& host);

  // Calls the hook's `train`, up to its end or to the end of the run.
  void run();

 private:
  Epochs begin_epochs(std::optional<int64_t> count) override;
  std::optional<int64_t> next_epoch(const Epochs& epochs) override;
  void begin_batches(Split split) override;
  std::optional<int64_t> next_batch(Split split) override;
  void end_batches(Split split) override;
  const StepInputs& inputs(int64_t batch) override;
  const StepInputs& inputs() override;
  bool sync_gradients() const override;
  void backward(Value loss) override;
  Value clip_grad_norm(std::optional<int32_t> optimizer, double limit) override;
  void clip_grad_value(std::optional<int32_t> optimizer, double limit) override;
  const std::vector<std::string>& optimizers() const override;
  void step(int32_t optimizer) override;
  void zero_grad(int32_t optimizer) override;
  double rate(int32_t optimizer) override;
  void step_schedule() override;
  bool step_was_skipped() override;
  bool in_window() const override;
  void log(const std::string& name, Value value) override;
  void log(const std::string& name, double value) override;
  Cost cost() const override;
  void mark_step() override;
  void save() override;
  void load(std::optional<int64_t> state) override;

  // A batch that the hook works on.
  struct Open {
    const data::Batch* batch = nullptr;
    int64_t number = 0;
  };

  const data::Batch* batch() const { return current().batch; }
  const Open& current() const { return eval_.batch != nullptr ? eval_ : train_; }
  double base_rate(int32_t optimizer) const;
  int64_t scheduled();
  Segment& part();
  void begin_part();
  void end_part(bool run = true);
  void run_part();
  void end_batch();
  std::optional<int64_t> next_train_batch();
  std::optional<int64_t> next_eval_batch();
  void close_evaluation();
  void drop_window();
  void leave_epoch();
  void refuse_inside(std::string_view what) const;
  void stop_where_interrupted();
  [[noreturn]] void stop();

  Session& session_;
  Trainer& trainer_;
  Hooks& hooks_;
  LoopHost& host_;
  std::optional<Segment> part_;
  std::optional<data::Loader> train_loader_, eval_loader_;
  bool stopped_ = false;   // the run was over, and the hook would have gone on
  int64_t eval_left_ = 0;  // batches of the evaluation under way
  Open train_, eval_;
  int64_t batches_ = 0;  // their numbers
  int64_t micro_ = 0;    // batches of the window so far
  Trainer::Window window_;
  NotFinite not_finite_;  // the first that was, found once: it takes a while
  bool explained_ = false;
  bool untouched_ = true;               // nothing has been updated in the window
  std::optional<double> stepped_rate_;  // of the newest step in the window
  int reads_ = 0;                       // in this part
  std::vector<bool> stepped_;           // by optimizer: at this batch
  int64_t counted_ = 0;                 // number of the newest batch whose samples train/loss has counted
  int64_t epochs_before_ = 0;           // of the loops over epochs so far
  std::optional<int64_t> epoch_;        // that the loop over epochs has given
  std::optional<int64_t> batch_epoch_;  // that the loop over batches goes through
};

}  // namespace runner::train
