#include "tools/step_log.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

constexpr std::string_view kHeader =
    "step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,"
    "budget_bytes,validation_loss\n";

std::string Cell(std::optional<double> value) {
  return value && std::isfinite(*value) ? StrCat(*value) : "";
}

// The header and the rows of steps up to `done`, of a log's text; a last row that was not
// written to its end goes, too.
Result<std::string> RowsUpTo(std::string_view text, int64_t done,
                             const std::string& path) {
  if (!text.starts_with(kHeader)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[log] ", Quoted(path),
                        " is no log of a run, which begins with ",
                        kHeader.substr(0, kHeader.size() - 1),
                        "; move it away, or give another --log")};
  }
  size_t end = kHeader.size();
  while (end < text.size()) {
    const size_t next = text.find('\n', end);
    int64_t step = 0;
    const auto parsed =
        std::from_chars(text.data() + end, text.data() + text.size(), step);
    const bool is_row = next != std::string_view::npos &&
                        parsed.ec == std::errc() && *parsed.ptr == ',';
    if (!is_row || step > done) break;
    end = next + 1;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

Result<StepLog> StepLog::Open(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Claim(path));
  return StepLog(std::move(file));
}

Status StepLog::Begin(int64_t done) {
  std::string rows(kHeader);
  if (done > 0) {
    const Result<std::string> text = ReadFile(file_.resolved());
    if (text.ok() && !text->empty()) {
      STOWAGE_ASSIGN_OR_RETURN(rows, RowsUpTo(*text, done, file_.path()));
    } else if (!text.ok() && text.error().code != ErrorCode::kNotFound) {
      return text.error();
    }
  }
  STOWAGE_RETURN_IF_ERROR(file_.Replace(rows));
  out_.open(file_.resolved(), std::ios::app | std::ios::binary);
  return status();
}

void StepLog::Add(const StepFigures& figures, const MemoryFigures& memory,
                  bool is_evaluated) {
  AddEvaluation(std::nullopt);
  out_ << StrCat(figures.step, ",", Cell(figures.epoch), ",",
                 Cell(figures.loss), ",", Cell(figures.lr), ",",
                 Cell(figures.grad_norm), ",", Cell(figures.seconds), ",",
                 Cell(figures.tokens_per_second), ",", memory.arena, ",",
                 memory.budget ? StrCat(*memory.budget) : "", ",");
  waits_ = true;
  if (!is_evaluated) AddEvaluation(std::nullopt);
}

void StepLog::AddEvaluation(std::optional<double> validation_loss) {
  if (!waits_) return;
  out_ << Cell(validation_loss) << "\n" << std::flush;
  waits_ = false;
}

Status StepLog::status() const {
  if (out_) return {};
  return Error{ErrorCode::kIo,
               StrCat("[log] ", Quoted(file_.path()), " cannot be written")};
}

}  // namespace stowage::tools
