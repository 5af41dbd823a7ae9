#include "tools/rank_agreement.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/hash.h"
#include "base/strings.h"
#include "cluster/launch.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "runtime/checkpoint_file.h"
#include "tools/run_notes.h"
#include "tools/tuning.h"

namespace stowage::tools {

namespace {

// The collectives of a step, in their order: ranks whose plans have others would wait
// for each other, or add what does not belong together.
std::string CollectivesText(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    if (!GetOpDef(node.op).collective) continue;
    text += StrCat(OpName(node.op), " ",
                   graph.value(node.inputs[0]).type.ToString(), "; ");
  }
  return StrCat(std::ranges::count(text, ';'), " collectives (XXH64 ",
                HexDigest(Xxh64(text)), ")");
}

}  // namespace

Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Sharding> shardings,
                           ReadShard(flags.shard));
  if (!ranks.alone() || shardings.front() == Sharding::kNone) {
    if (ranks.alone()) shardings.resize(1);
    return shardings;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[ranks] --shard ", flags.shard,
                      " splits among ranks, and there is one; start several: "
                      "mpirun -n 4 stowage train ...")};
}

Status KeepWeightsWhole(std::vector<Sharding>* shardings) {
  std::erase(*shardings, Sharding::kWeights);
  if (!shardings->empty()) return {};
  return Error{ErrorCode::kUnsupported,
               "[ranks] with --shard weights no rank has the weights from "
               "which the reference of this --objective comes; split less, "
               "or choose orpo or simpo"};
}

Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks) {
  if (ranks.alone()) return true;
  cluster::Facts facts;
  STOWAGE_ASSIGN_OR_RETURN(const RunNotes notes, NotesOf(spec, run, flags));
  for (const auto& [name, value] : notes) {
    facts.emplace_back(StrCat("the ", name), value);
  }
  if (spec.tuning) {
    STOWAGE_ASSIGN_OR_RETURN(const CheckpointBase base,
                             spec.tuning->model.BaseOfCheckpoints());
    facts.emplace_back("the base", base.content);
  }
  facts.emplace_back("the plan", CollectivesText(plan.step.graph));
  STOWAGE_RETURN_IF_ERROR(ranks.Agree(facts));
  // Numbers are all the same where the square of their sum is N times that of their
  // squares.
  const auto size = static_cast<double>(evaluation_batch);
  std::array<double, 2> sums = {size, size * size};
  STOWAGE_RETURN_IF_ERROR(ranks.Sum(sums));
  return sums[0] * sums[0] == ranks.ranks() * sums[1];
}

Status SavedByAll(const Status& own, RankRun& ranks) {
  constexpr int64_t kGood = -1;
  int64_t code = own.ok() ? kGood : static_cast<int64_t>(own.error().code);
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&code));
  if (!own.ok() || code == kGood) return own;
  return Error{static_cast<ErrorCode>(code), "[ranks] rank 0 has not saved"};
}

}  // namespace stowage::tools
