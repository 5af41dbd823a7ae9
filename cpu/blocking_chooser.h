#ifndef STOWAGE_CPU_BLOCKING_CHOOSER_H_
#define STOWAGE_CPU_BLOCKING_CHOOSER_H_

// Which blocking each product of a program has: the fastest of a trial's candidates, timed
// when a shape is bound for the first time, and then kept in a file of one processor, one
// vector extension and one version of our loops (runtime/kept_choices.h), since it means
// nothing to others.
//
//   STOWAGE_ASSIGN_OR_RETURN(BlockingChooser chooser, BlockingChooser::Open(folder));
//   STOWAGE_ASSIGN_OR_RETURN(const Blocking blocking, chooser.Choose(trial, pool));

#include <functional>
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

  /// Errors: those of KeptChoices::Open.
  static Result<BlockingChooser> Open(const std::string& folder,
                                      Stopwatch stopwatch = Seconds);

  /// What is kept for the trial's key, or what is the fastest, which is kept then. It
  /// allocates the trial's memory, and frees it. Errors: kInvalidArgument where what is kept
  /// is no candidate; that of CheckMemory; those of KeptChoices::Keep.
  Result<Blocking> Choose(const BlockingTrial& trial, ThreadPool& pool);

  const std::string& path() const { return kept_.path(); }

 private:
  BlockingChooser(KeptChoices kept, Stopwatch stopwatch)
      : kept_(std::move(kept)), stopwatch_(std::move(stopwatch)) {}

  KeptChoices kept_;
  Stopwatch stopwatch_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BLOCKING_CHOOSER_H_
