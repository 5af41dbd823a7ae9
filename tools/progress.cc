#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "base/strings.h"
#include "report/text.h"

namespace stowage::tools {

namespace {

std::string MemoryText(const MemoryFigures& memory) {
  const double percent = memory.no_reuse == 0
                             ? 0.0
                             : 100.0 * static_cast<double>(memory.saved()) /
                                   static_cast<double>(memory.no_reuse);
  return StrCat(
      "arena ", FormatBytes(memory.arena),
      memory.budget ? StrCat(" of ", FormatBytes(*memory.budget)) : "",
      "  saved ", FormatBytes(memory.saved()), " (", Fixed(percent, 1), " %)");
}

bool WantsColour() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

}  // namespace

Progress::Progress(int64_t first, int64_t last, std::string_view token_name,
                   const MemoryFigures& memory)
    : first_(first),
      last_(last),
      every_(std::max<int64_t>(1, (last - first + 1) / 20)),
      terminal_(isatty(STDERR_FILENO) != 0),
      colour_(terminal_ && WantsColour()),
      token_name_(token_name),
      memory_(MemoryText(memory)) {}

void Progress::Show(const StepFigures& figures) {
  const bool end = figures.step == first_ || figures.step == last_;
  if (terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (!end && now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
  } else if (!end && figures.step % every_ != 0) {
    return;
  }
  const std::string last = StrCat(last_);
  const std::string loss = Fixed(figures.loss, 4);
  const std::string line = StrCat(
      "step ", PadLeft(StrCat(figures.step), last.size()), "/", last, "  loss ",
      colour_ ? StrCat("\x1b[1m", loss, "\x1b[0m") : loss, "  lr ",
      Fixed(figures.lr, 6), "  ",
      figures.grad_norm ? StrCat("norm ", Fixed(*figures.grad_norm, 3), "  ")
                        : "",
      WithCommas(static_cast<int64_t>(figures.tokens_per_second)), " ",
      token_name_, "/s  ", memory_);
  if (terminal_) {
    std::cerr << '\r' << line << "\x1b[K" << (figures.step == last_ ? "\n" : "")
              << std::flush;
  } else {
    std::cerr << line << std::endl;
  }
}

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

// Whether to print now; schedules the next time if so.
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
