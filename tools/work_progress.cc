#include "tools/work_progress.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "base/strings.h"
#include "report/format.h"

namespace stowage::tools {
namespace {

constexpr std::chrono::seconds kBeforeTerminal{1};
constexpr std::chrono::seconds kBeforeLog{10};
constexpr std::chrono::milliseconds kTerminalLine{100};

}  // namespace

WorkProgress::WorkProgress(std::string what, std::string unit)
    : WorkProgress(
          std::move(what), std::move(unit),
          {.out = &std::cerr, .is_terminal = isatty(STDERR_FILENO) != 0}) {}

WorkProgress::WorkProgress(std::string what, std::string unit, Options options)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      options_(std::move(options)),
      next_(options_.now() +
            (options_.is_terminal ? kBeforeTerminal : kBeforeLog)),
      wait_(kBeforeLog) {}

std::shared_ptr<WorkProgress> WorkProgress::OfPlanning(
    std::function<void()>* on_choice) {
  auto progress =
      std::make_shared<WorkProgress>("planning", "choices looked at");
  *on_choice = [progress] { progress->Count(); };
  return progress;
}

// Whether to print now; then not again for a while.
bool WorkProgress::IsTime() {
  const Time now = options_.now();
  if (now < next_) return false;
  if (options_.is_terminal) {
    next_ = now + kTerminalLine;
  } else {
    next_ += wait_;
    wait_ *= 2;
  }
  return true;
}

void WorkProgress::Show(int64_t done, int64_t total) {
  const std::lock_guard lock(mutex_);
  if (!IsTime()) return;
  Print(StrCat(WithCommas(done), " of ", WithCommas(total)));
}

void WorkProgress::Count() {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (IsTime()) Print(WithCommas(count_));
}

void WorkProgress::Print(const std::string& text) {
  const std::string line = StrCat(what_, ": ", text, " ", unit_);
  if (options_.is_terminal) {
    *options_.out << '\r' << line << "\x1b[K" << std::flush;
    is_shown_ = true;
  } else {
    *options_.out << line << std::endl;
  }
}

void WorkProgress::Clear() {
  const std::lock_guard lock(mutex_);
  if (is_shown_) *options_.out << "\r\x1b[K" << std::flush;
  is_shown_ = false;
}

}  // namespace stowage::tools
