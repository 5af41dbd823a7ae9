#include "train/checkpoint_series.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"

namespace stowage {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLossNote = "held_out_loss";

// "a/model.safetensors" with "best" is "a/model.best.safetensors".
std::string WithTag(const std::string& path, std::string_view tag) {
  const fs::path whole = path;
  return (whole.parent_path() /
          StrCat(whole.stem().string(), ".", tag, whole.extension().string()))
      .string();
}

constexpr std::string_view kLinkSuffix = ".stowage-link";

// What StepPath has before and behind the number of the step.
std::pair<std::string, std::string> AroundStep(const std::string& path) {
  const fs::path whole = path;
  return {
      (whole.parent_path() / StrCat(whole.stem().string(), ".step-")).string(),
      whole.extension().string()};
}

// Removes the links that a run which was killed left between making one and giving it its
// name.
void RemoveLinks(const std::string& prefix, const std::string& suffix) {
  std::error_code failed, ignored;
  const std::string ending = StrCat(suffix, kLinkSuffix);
  for (fs::directory_iterator entry(fs::path(prefix).parent_path(), failed),
       end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    if (path.size() <= prefix.size() + ending.size() ||
        !path.starts_with(prefix) || !path.ends_with(ending)) {
      continue;
    }
    const std::string number =
        path.substr(prefix.size(), path.size() - prefix.size() - ending.size());
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    fs::remove(entry->path(), ignored);
  }
}

}  // namespace

std::string BestPath(const std::string& path) { return WithTag(path, "best"); }

std::string StepPath(const std::string& path, int64_t step) {
  const auto [before, behind] = AroundStep(path);
  return StrCat(before, step, behind);
}

Result<CheckpointSeries> CheckpointSeries::Claim(const std::string& path,
                                                 const SeriesOptions& options) {
  if (options.keep_last < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[checkpoint] ", options.keep_last,
                        " checkpoints are to be kept; expected at least 1")};
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile newest, OutputFile::Claim(path));
  if (options.keep_last > 1) {
    const auto [prefix, suffix] = AroundStep(newest.resolved());
    STOWAGE_RETURN_IF_ERROR(NoteOutputs(path, prefix, suffix));
    RemoveLinks(prefix, suffix);
  }
  CheckpointSeries series(std::move(newest));
  series.keep_last_ = options.keep_last;
  if (options.keep_best) {
    STOWAGE_ASSIGN_OR_RETURN(
        series.best_, OutputFile::Claim(BestPath(series.newest_.resolved())));
  }
  return series;
}

Status CheckpointSeries::Save(int64_t step, const RunNotes& notes,
                              const WriteCheckpoint& write) {
  STOWAGE_RETURN_IF_ERROR(write(newest_, notes));
  last_step_ = step;
  return keep_last_ > 1 ? KeepStep(step, notes, write) : Status();
}

// The newest under the name of its step too; the oldest go.
Status CheckpointSeries::KeepStep(int64_t step, const RunNotes& notes,
                                  const WriteCheckpoint& write) {
  const std::string path = StepPath(newest_.resolved(), step);
  const std::string link = StrCat(path, kLinkSuffix);
  std::error_code failed, ignored;
  fs::remove(link, ignored);
  fs::create_hard_link(newest_.resolved(), link, failed);
  if (!failed) fs::rename(link, path, failed);
  if (failed) {  // a file system without links: once more, then
    fs::remove(link, ignored);
    STOWAGE_ASSIGN_OR_RETURN(const OutputFile file,
                             OutputFile::Claim(path, FileUse::kOwn));
    STOWAGE_RETURN_IF_ERROR(write(file, notes));
  }
  if (steps_.empty() || steps_.back() != path) steps_.push_back(path);
  while (std::ssize(steps_) > keep_last_) {
    fs::remove(steps_.front(), ignored);
    steps_.pop_front();
  }
  return {};
}

Result<bool> CheckpointSeries::SaveIfBest(double held_out_loss,
                                          const RunNotes& notes,
                                          const WriteCheckpoint& write) {
  STOWAGE_CHECK(best_.has_value());
  if (!std::isfinite(held_out_loss)) return false;
  if (best_loss_ && held_out_loss >= *best_loss_) return false;
  RunNotes with_loss = notes;
  with_loss.emplace_back(kLossNote, StrCat(held_out_loss));
  STOWAGE_RETURN_IF_ERROR(write(*best_, with_loss));
  best_loss_ = held_out_loss;
  return true;
}

Status CheckpointSeries::Save(int64_t step, const RunNotes& notes,
                              const WriteCheckpoint& write,
                              std::optional<double> held_out_loss,
                              bool best_alone) {
  // The newest is saved whatever became of the best.
  Status best;
  if (best_ && held_out_loss) {
    const Result<bool> saved = SaveIfBest(*held_out_loss, notes, write);
    if (!saved.ok()) best = saved.error();
  }
  if (!best_alone) STOWAGE_RETURN_IF_ERROR(Save(step, notes, write));
  return best;
}

Result<std::string> CheckpointSeries::Continue(const RunNotes& subject) {
  if (!best_) return std::string();
  const Result<CheckpointInfo> info = ReadCheckpointInfo(best_->path());
  if (!info.ok()) {
    if (info.error().code == ErrorCode::kNotFound) return std::string();
    return Error{info.error().code,
                 StrCat(info.error().message,
                        "; it lies where the best checkpoint goes, move it "
                        "away")};
  }
  for (const auto& [name, value] : subject) {
    const std::string* const saved = info->Find(name);
    if (saved == nullptr || *saved == value) continue;
    return StrCat("[checkpoint] ", Quoted(best_->path()), " is of another ",
                  name, ", ", WithoutControls(*saved), " in place of ", value,
                  "; the best of this run replaces it\n");
  }
  const std::string* const text = info->Find(kLossNote);
  double loss = 0;
  if (text != nullptr &&
      std::from_chars(text->data(), text->data() + text->size(), loss).ec ==
          std::errc() &&
      std::isfinite(loss)) {
    best_loss_ = loss;
  }
  return std::string();
}

namespace {

// How it went at a rank, in bytes that are sent as they are.
struct Outcome {
  uint64_t digest = 0;
  int64_t code = -1;  // of its error; below 0 without one
  std::array<char, 1008> message = {};

  std::string_view text() const {
    return std::string_view(message.data(), message.size())
        .substr(0, std::string_view(message.data(), message.size()).find('\0'));
  }
};

Outcome OutcomeOf(const Result<uint64_t>& saved) {
  Outcome outcome;
  if (saved.ok()) {
    outcome.digest = *saved;
    return outcome;
  }
  outcome.code = static_cast<int64_t>(saved.error().code);
  const std::string& message = saved.error().message;
  std::copy_n(message.begin(), std::min(message.size(), outcome.message.size()),
              outcome.message.begin());
  return outcome;
}

}  // namespace

Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives) {
  const Result<uint64_t> saved = SaveShard(step, values, path, number, base);
  if (collectives == nullptr) {
    if (!saved.ok()) return saved.error();
    return std::vector<uint64_t>{*saved};
  }
  const Outcome own = OutcomeOf(saved);
  std::vector<Outcome> all(static_cast<size_t>(values.ranks));
  if (!collectives->AllGather(std::as_bytes(std::span(&own, 1)),
                              std::as_writable_bytes(std::span(all)))) {
    return Error{ErrorCode::kRankLost,
                 StrCat("[ranks] a rank was lost while the shards of ", path,
                        " were saved")};
  }
  std::vector<uint64_t> digests;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code >= 0) {
      return Error{static_cast<ErrorCode>(all[rank].code),
                   StrCat("[ranks] rank ", rank, ": ", all[rank].text())};
    }
    digests.push_back(all[rank].digest);
  }
  return digests;
}

namespace {

Error Lost(const std::string& name) {
  return {ErrorCode::kRankLost, StrCat("[ranks] a rank was lost while ",
                                       Quoted(name), " was gathered or given")};
}

}  // namespace

Result<WholeValues> WholeValues::Make(const Graph& step, Backend& backend,
                                      Collectives& collectives) {
  GraphBuilder g(step.name());
  for (const ValueId id : PersistentValues(step)) {
    ValueInfo leaf = step.value(id);
    leaf.on_host = false;
    g.LeafLike(leaf);
  }
  STOWAGE_ASSIGN_OR_RETURN(Graph graph, g.Finish());
  WholeValues whole(std::move(graph), collectives);
  if (collectives.rank() != 0) return whole;
  STOWAGE_ASSIGN_OR_RETURN(
      const Plan plan, PlanMemory(whole.graph_, {.device = backend.Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"train", whole.graph_, plan}}, backend));
  whole.session_ = std::make_unique<Session>(std::move(session));
  return whole;
}

Status WholeValues::Gather(const Runner& step) {
  std::vector<std::byte> bytes, block;
  for (const ValueId id : PersistentValues(graph_)) {
    const ValueInfo& leaf = graph_.value(id);
    const DType dtype = leaf.type.dtype;
    bytes.resize(static_cast<size_t>(leaf.type.bytes()));
    if (const auto elements = BlockOf(Values(), step.graph(), leaf)) {
      block.resize(static_cast<size_t>(*elements * SizeOf(dtype)));
      STOWAGE_RETURN_IF_ERROR(step.ReadBytes(OwnName(leaf.name), dtype, block));
      if (!collectives_->AllGather(block, bytes)) return Lost(leaf.name);
    } else {
      STOWAGE_RETURN_IF_ERROR(step.ReadBytes(leaf.name, dtype, bytes));
    }
    if (!session_) continue;
    STOWAGE_RETURN_IF_ERROR(
        session_->front().WriteBytes(leaf.name, dtype, bytes));
  }
  return {};
}

Status WholeValues::Scatter(Runner& step) {
  return ScatterValues(
      Values(), *collectives_,
      [&](const ValueInfo& leaf, std::span<std::byte> bytes) {
        return session_->front().ReadBytes(leaf.name, leaf.type.dtype, bytes);
      },
      step);
}

Status ScatterValues(const RankValues& values, Collectives& collectives,
                     const WholeSource& source, Runner& step) {
  // Rank 0's value plus zeros: what it has in numbers of four bytes, which add exactly.
  std::vector<std::byte> words, scratch, block;
  for (const ValueId id : PersistentValues(values.whole)) {
    const ValueInfo& leaf = values.whole.value(id);
    const DType dtype = leaf.type.dtype;
    const auto size = static_cast<size_t>(leaf.type.bytes());
    words.assign((size + 3) / 4 * 4, std::byte{0});
    const std::span<std::byte> bytes = std::span(words).first(size);
    if (values.rank == 0) STOWAGE_RETURN_IF_ERROR(source(leaf, bytes));
    scratch.resize(static_cast<size_t>(
        CollectiveScratch(static_cast<Bytes>(words.size()), values.ranks)));
    if (!collectives.AllReduce(DType::kI32, words, scratch)) {
      return Lost(leaf.name);
    }
    const auto elements = BlockOf(values, step.graph(), leaf);
    if (!elements) {
      STOWAGE_RETURN_IF_ERROR(step.WriteBytes(leaf.name, dtype, bytes));
      continue;
    }
    block.assign(static_cast<size_t>(*elements * SizeOf(dtype)), std::byte{0});
    const size_t begin =
        std::min(size, static_cast<size_t>(values.rank) * block.size());
    const std::span<std::byte> mine =
        bytes.subspan(begin, std::min(block.size(), size - begin));
    std::copy(mine.begin(), mine.end(), block.begin());
    STOWAGE_RETURN_IF_ERROR(
        step.WriteBytes(values.own_name(leaf.name), dtype, block));
  }
  return {};
}

}  // namespace stowage
