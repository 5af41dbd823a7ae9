#ifndef STOWAGE_TOOLS_PROGRESS_H_
#define STOWAGE_TOOLS_PROGRESS_H_

// The progress of a run on stderr: one line that is written over again on a
// terminal, about twenty lines of a log anywhere else. NO_COLOR is honoured.

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
  /// For a run over steps first..last, whose speed is in `token_name` a second.
  Progress(int64_t first, int64_t last, std::string_view token_name,
           const MemoryFigures& memory);

  void Show(const StepFigures& figures);

 private:
  const int64_t first_, last_;
  const int64_t every_;  // lines of a log
  const bool terminal_, colour_;
  const std::string token_name_;
  const std::string memory_;
  std::chrono::steady_clock::time_point shown_;
};

// How far work is that has no line of its own for each step, on stderr: nothing of
// what is done at once. A terminal has one line, from the first second on, which
// goes away with this. A log has a line when 10 seconds have passed, 20, 40, ...:
// what takes an hour says so nine times.
//
//   WorkProgress progress("evaluating", "batches");
//   for (...) progress.Show(i + 1, batches);  // evaluating: 3 of 100 batches

class WorkProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Where it is told, and by which clock: stderr, and the machine's.
  struct Options {
    std::ostream* out = nullptr;  // null: stderr
    bool is_terminal = false;
    std::function<Time()> now = std::chrono::steady_clock::now;
  };

  WorkProgress(std::string what, std::string unit);
  WorkProgress(std::string what, std::string unit, Options options);
  ~WorkProgress() { Clear(); }
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  /// Of planning: calls of `on_choice`, which this sets, are counted.
  static std::shared_ptr<WorkProgress> OfPlanning(
      std::function<void()>* on_choice);

  /// So many are done, of `total`.
  void Show(int64_t done, int64_t total);
  /// One more is done, of nobody knows how many. From any thread.
  void Count();
  /// Takes the line off a terminal, for others to write.
  void Clear();

  /// The work ends before its time.
  void Stop() { is_stopped_ = true; }
  bool is_stopped() const { return is_stopped_; }

 private:
  bool IsTime();
  void Print(const std::string& text);

  const std::string what_, unit_;
  const Options options_;
  std::mutex mutex_;
  Time next_;                  // nothing is printed before
  std::chrono::seconds wait_;  // of a log, before its next line
  int64_t count_ = 0;
  bool is_shown_ = false;  // on a terminal
  bool is_stopped_ = false;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PROGRESS_H_
