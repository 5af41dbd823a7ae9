#ifndef STOWAGE_TOOLS_RANK_RUN_H_
#define STOWAGE_TOOLS_RANK_RUN_H_

// A training run on several ranks, which mpirun or srun has started, as each of them
// sees it: who speaks, what all must have in common, and how all end. Alone, nothing of
// this does anything.
//
// Rank 0 speaks and writes files, but for the shards of checkpoints. What another would print goes nowhere, but for the
// error it ends by, which rank 0 tells. Where a rank is lost, each of the others says so
// and ends at once, by exit code 3: what a checkpoint has saved is whole at any moment.
//
//   return RunOnRanks([&](RankRun& ranks) {
//     ...
//     return ranks.rank() == 0 ? Print(...) : kExitDone;
//   });

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"
#include "cluster/lifeline.h"
#include "cluster/team.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "train/run.h"

namespace stowage::tools {

class RankRun : public RunPeers {
 public:
  /// Joins the ranks that a launcher has started this process with. Errors: those of
  /// cluster::ReadLaunch and cluster::Team::Join.
  static Result<std::unique_ptr<RankRun>> Join();
  ~RankRun() override;
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int rank() const { return launch_.rank; }
  int ranks() const { return launch_.ranks; }
  /// Of this one among those of its host.
  int local_rank() const { return launch_.local_rank; }
  bool alone() const { return team_ == nullptr; }
  /// Whether this one prints and writes files.
  bool speaks() const { return rank() == 0; }
  /// Null where this is alone.
  Collectives* collectives();
  /// As asked for; if 0, as many as this rank's share of the host has cores, or 0 alone.
  int Threads(int asked) const;
  /// To other ranks, by this one, so far.
  int64_t bytes_sent() const override;

  // What follows each rank must call equally often.

  /// The program and the options it was called with, but for those that may differ from
  /// host to host (--threads, --data), and `facts`. Errors: those of cluster::Agree.
  Status Agree(const cluster::Facts& facts);
  /// A signal that a rank has caught; the lowest rank's, and the same at all. 0: none.
  Result<int> AnyOf(int signal) override;
  /// Gives all what rank 0 has: a number, or params and states.
  Status Share(int64_t* number);
  Status Share(Runner& runner);
  /// Sums of all ranks, in rank order.
  Status Sum(std::span<double> values);
  /// Ends the run of all, which return the same code.
  int EndTogether(int exit_code);

 private:
  friend int RunOnRanks(const std::function<int(RankRun&)>& run);
  class Silence;
  RankRun() = default;
  void OnEnd(const cluster::RankEnd& end);
  void AwaitReason();
  int End(int exit_code);

  cluster::Launch launch_;
  std::unique_ptr<Silence> silence_;  // of ranks but 0
  std::vector<int32_t> signals_;      // of all ranks
  std::atomic<bool> is_ending_{false};
  bool has_ended_ = false;
  std::unique_ptr<cluster::Team> team_;
};

/// Runs `run` as one of the ranks there are, ends with all of them, and returns its exit
/// code. If it is one of an error, the others end by it, too.
int RunOnRanks(const std::function<int(RankRun&)>& run);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_RUN_H_
