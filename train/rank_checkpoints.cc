#include "train/rank_checkpoints.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"

namespace stowage {

namespace {

// The result of a rank, as bytes to gather.
struct Outcome {
  uint64_t digest = 0;
  int64_t code = -1;  // of its error; -1 for none
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

Error Lost(const std::string& name) {
  return {ErrorCode::kRankLost, StrCat("[ranks] a rank was lost while ",
                                       Quoted(name), " was gathered or given")};
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
  // A broadcast by all-reduce: rank 0's value as 32-bit integers, plus zeros.
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
