#ifndef STOWAGE_CPU_BLOCKING_CHOOSER_H_
#define STOWAGE_CPU_BLOCKING_CHOOSER_H_

// Which blocking each product of a program has: the fastest of a trial's candidates, timed
// when a shape is bound for the first time, and then kept in a file of one processor, one
// vector extension and one version of our loops (runtime/kept_choices.h), since it means
// nothing to others. Since no choice shows in a bit, a file that cannot be read or written
// is no reason to stop: shapes are timed for this chooser alone then.
//
//   BlockingChooser chooser = BlockingChooser::Open(folder);
//   const Blocking blocking = chooser.Choose(trial, pool);
//   if (!chooser.note().empty()) std::cerr << chooser.note() << '\n';

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "cpu/blocking.h"
#include "cpu/thread_pool.h"
#include "runtime/kept_choices.h"

namespace stowage::cpu {

class BlockingChooser {
 public:
  /// How long what it calls takes, in seconds.
  using Stopwatch = std::function<double(const std::function<void()>&)>;
  /// By the system's clock.
  static double Seconds(const std::function<void()>& run);

  /// Reads what is kept in `folder`, which need not be there.
  static BlockingChooser Open(const std::string& folder,
                              Stopwatch stopwatch = Seconds);

  /// What was chosen for the trial's key, is kept for it, or is the fastest, which is kept
  /// then. A kept one that is no candidate, as of a program from before the candidates
  /// changed, counts as none. It allocates the trial's memory, and frees it; where there is
  /// none, the default is taken. Time: that of some runs of the trial for each candidate.
  Blocking Choose(const BlockingTrial& trial, ThreadPool& pool);

  /// Why choices are not kept, a line for people; empty: they are.
  const std::string& note() const { return note_; }

 private:
  explicit BlockingChooser(Stopwatch stopwatch)
      : stopwatch_(std::move(stopwatch)) {}

  std::optional<Blocking> Kept(const BlockingTrial& trial) const;
  // None where there is no memory for it.
  std::optional<Blocking> Fastest(const BlockingTrial& trial,
                                  ThreadPool& pool) const;
  void Keep(const BlockingTrial& trial, const Blocking& blocking);

  std::optional<KeptChoices> kept_;  // none where it cannot be read or written
  std::map<BlockingKey, Blocking> chosen_;
  std::string note_;
  Stopwatch stopwatch_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BLOCKING_CHOOSER_H_
