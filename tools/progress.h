#ifndef STOWAGE_TOOLS_PROGRESS_H_
#define STOWAGE_TOOLS_PROGRESS_H_

// Prints progress to stderr: Progress for the steps of a run, and WorkProgress for other long work.
// On a terminal, the progress is one line that is overwritten. For other streams, a few lines are
// printed. A nonempty environment variable NO_COLOR disables colors.
//
//   WorkProgress progress("evaluating", "batches");
//   for (...) progress.Show(i + 1, batches);  // evaluating: 3 of 100 batches

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "train/run.h"

namespace stowage::tools {

struct MemoryFigures {
  Bytes arena = 0;
  std::optional<Bytes> budget;
  Bytes lower_bound = 0;
  Bytes no_reuse = 0;

  Bytes saved() const { return no_reuse - arena; }
};

class Progress {
 public:
  /// Creates an object that reports steps `first` to `last`, with the speed in `token_name` per
  /// second. If stderr is not a terminal, prints about twenty lines.
  Progress(int64_t first, int64_t last, std::string_view token_name,
           const MemoryFigures& memory);

  void Show(const StepFigures& figures);

 private:
  const int64_t first_, last_;
  const int64_t every_;  // steps between log lines
  const bool terminal_, colour_;
  const std::string token_name_;
  const std::string memory_;
  std::chrono::steady_clock::time_point shown_;
};

/// Prints the progress of work other than steps. On a terminal, a line appears after the first
/// second, and is cleared at the end. Otherwise a line is printed after 10, 20, 40, ... seconds,
/// which is nine lines in an hour.
class WorkProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// The output stream and the clock.
  struct Options {
    std::ostream* out = nullptr;  // stderr if null
    bool is_terminal = false;
    std::function<Time()> now = std::chrono::steady_clock::now;
  };

  WorkProgress(std::string what, std::string unit);
  WorkProgress(std::string what, std::string unit, Options options);
  ~WorkProgress() { Clear(); }
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  /// Returns an object for the progress of planning, and sets `*on_choice` to a function that calls
  /// Count. For TrainingSpec::on_choice.
  static std::shared_ptr<WorkProgress> OfPlanning(
      std::function<void()>* on_choice);

  /// Reports that `done` of `total` units are done. Thread-safe.
  void Show(int64_t done, int64_t total);
  /// Reports that one more unit is done, for work whose total is unknown. Thread-safe.
  void Count();
  /// Clears the line of a terminal, so that other output can be printed.
  void Clear();

  /// Marks the work as interrupted.
  void Stop() { is_stopped_ = true; }
  bool is_stopped() const { return is_stopped_; }

 private:
  bool IsTime();
  void Print(const std::string& text);

  const std::string what_, unit_;
  const Options options_;
  std::mutex mutex_;
  Time next_;                  // of the next print
  std::chrono::seconds wait_;  // between lines of a log
  int64_t count_ = 0;
  bool is_shown_ = false;  // on a terminal
  bool is_stopped_ = false;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PROGRESS_H_
