#include "train/run_log.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr std::string_view kHeader =
    "step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,"
    "budget_bytes,validation_loss\n";

std::string Cell(std::optional<double> value) {
  return value && std::isfinite(*value) ? StrCat(*value) : "";
}

// The header of a log's text and the rows of steps up to `done`, without an incomplete last
// row.
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

double SecondsSince1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A unique name in the style of TensorBoard's writers.
std::string EventFileName() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return StrCat("events.out.tfevents.",
                static_cast<int64_t>(1e6 * SecondsSince1970()), ".", host, ".",
                ::getpid());
}

}  // namespace

Result<RunLog> RunLog::Open(const std::string& path) {
  RunLog log(path);
  std::error_code failed;
  if (path.ends_with('/') || std::filesystem::is_directory(path, failed)) {
    std::filesystem::create_directories(path, failed);
    if (!failed && ::access(path.c_str(), W_OK | X_OK) == 0) return log;
    return Error{ErrorCode::kIo,
                 StrCat("[log] the folder ", Quoted(path),
                        failed ? " cannot be made: " : " takes no files",
                        failed ? failed.message() : "")};
  }
  STOWAGE_ASSIGN_OR_RETURN(log.file_, OutputFile::Claim(path));
  return log;
}

Status RunLog::Begin(int64_t done, const RunSpec& run, const Memory& memory) {
  run_ = run;
  memory_ = memory;
  return file_ ? BeginRows(done) : BeginEvents(done);
}

Status RunLog::BeginRows(int64_t done) {
  std::string rows(kHeader);
  if (done > 0) {
    const Result<std::string> text = ReadFile(file_->resolved(), FileUse::kOwn);
    if (text.ok() && !text->empty()) {
      STOWAGE_ASSIGN_OR_RETURN(rows, RowsUpTo(*text, done, path_));
    } else if (!text.ok() && text.error().code != ErrorCode::kNotFound) {
      return text.error();
    }
  }
  STOWAGE_RETURN_IF_ERROR(file_->Replace(rows));
  out_.open(file_->resolved(), std::ios::app | std::ios::binary);
  return status();
}

Status RunLog::BeginEvents(int64_t done) {
  out_.open(std::filesystem::path(path_) / EventFileName(),
            std::ios::trunc | std::ios::binary);
  out_ << VersionRecord(SecondsSince1970());
  if (done > 0) out_ << SessionStartRecord(SecondsSince1970(), done + 1);
  out_ << std::flush;
  return status();
}

void RunLog::AddScalars(int64_t step, const std::vector<EventScalar>& scalars) {
  if (scalars.empty()) return;
  out_ << ScalarsRecord(SecondsSince1970(), step, scalars) << std::flush;
}

void RunLog::OnStep(const StepFigures& figures) {
  EndRow(std::nullopt);
  if (file_) {
    out_ << StrCat(figures.step, ",", Cell(figures.epoch), ",",
                   Cell(figures.loss), ",", Cell(figures.lr), ",",
                   Cell(figures.grad_norm), ",", Cell(figures.seconds), ",",
                   Cell(figures.tokens_per_second), ",", memory_.arena, ",",
                   memory_.budget ? StrCat(*memory_.budget) : "", ",");
  } else {
    std::vector<EventScalar> scalars;
    const auto add = [&](std::string_view tag, std::optional<double> value) {
      if (value) scalars.push_back({tag, static_cast<float>(*value)});
    };
    add("epoch", figures.epoch);
    add("loss", figures.loss);
    add("lr", figures.lr);
    add("grad_norm", figures.grad_norm);
    add("step_seconds", figures.seconds);
    add("tokens_per_second", figures.tokens_per_second);
    add("arena_bytes", static_cast<double>(memory_.arena));
    if (memory_.budget) {
      add("budget_bytes", static_cast<double>(*memory_.budget));
    }
    AddScalars(figures.step, scalars);
  }
  waits_ = figures.step;
  if (!run_.EvaluatesAt(figures.step)) EndRow(std::nullopt);
}

void RunLog::OnEvaluation(int64_t /*step*/,
                          const std::optional<Evaluation>& evaluation,
                          bool /*counts*/) {
  EndRow(evaluation ? std::optional(evaluation->loss) : std::nullopt);
}

void RunLog::EndRow(std::optional<double> validation_loss) {
  if (!waits_) return;
  if (file_) {
    out_ << Cell(validation_loss) << "\n" << std::flush;
  } else if (validation_loss) {
    AddScalars(*waits_,
               {{"validation_loss", static_cast<float>(*validation_loss)}});
  }
  waits_.reset();
}

Status RunLog::status() const {
  if (out_) return {};
  return Error{ErrorCode::kIo,
               StrCat("[log] ", Quoted(path_), " cannot be written")};
}

}  // namespace stowage
