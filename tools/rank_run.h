#ifndef STOWAGE_TOOLS_RANK_RUN_H_
#define STOWAGE_TOOLS_RANK_RUN_H_

// Represents one rank of a training run whose ranks were started by mpirun or srun. If there is
// only one rank, the collective functions do nothing.
//
// Rank 0 prints, and writes all files except the shards of checkpoints. The output of other ranks
// is dropped. If an error ends one of them, rank 0 prints it. If a rank is lost, the others report
// the loss and exit with code 3. Existing checkpoints remain intact.
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
  /// Connects to the other ranks that the launcher has started. Ends the process if not all ranks
  /// join within two minutes. Propagates errors of cluster::ReadLaunch and cluster::Team::Join.
  static Result<std::unique_ptr<RankRun>> Join();
  ~RankRun() override;
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int rank() const { return launch_.rank; }
  int ranks() const { return launch_.ranks; }
  /// Returns the index of this rank on its host.
  int local_rank() const { return launch_.local_rank; }
  bool alone() const { return team_ == nullptr; }
  /// Returns whether this is rank 0, which is the only rank that prints and writes files.
  bool speaks() const { return rank() == 0; }
  /// Returns the collectives of the run, or null if there is only one rank.
  Collectives* collectives();
  /// Returns the number of threads for this rank: `asked` if it is not 0 or if there is only one
  /// rank, and otherwise the number of cores of the host divided by the number of ranks on the
  /// host.
  int Threads(int asked) const;
  /// Returns the number of bytes that this rank has sent.
  int64_t bytes_sent() const override;

  // The following functions are collective: every rank must call them.

  /// Checks that all ranks run the same executable with equal options and equal `facts`. --threads
  /// and --data may differ between hosts, and are not compared. Propagates errors of
  /// cluster::Agree.
  Status Agree(const cluster::Facts& facts);
  /// Returns the value of `signal` on the lowest rank where it is not 0, or 0 if it is 0 on all
  /// ranks. The result is equal on all ranks. Returns kRankLost if a rank is lost.
  Result<int> AnyOf(int signal) override;
  /// Broadcasts a number, or all params and states of `runner`, from rank 0 to all ranks. Returns
  /// kRankLost if a rank is lost.
  Status Share(int64_t* number);
  Status Share(Runner& runner);
  /// Replaces each element of `values` by its sum over all ranks, which is computed in rank order.
  /// Returns kRankLost if a rank is lost.
  Status Sum(std::span<double> values);
  /// Disconnects from the other ranks after a successful run, and returns `exit_code`. If another
  /// rank ends with an error instead, ends the process with the exit code of that rank.
  int EndTogether(int exit_code);

 private:
  friend int RunOnRanks(const std::function<int(RankRun&)>& run);
  class Silence;
  RankRun() = default;
  void OnEnd(const cluster::RankEnd& end);
  void AwaitReason();
  int End(int exit_code);

  cluster::Launch launch_;
  std::unique_ptr<Silence> silence_;  // on ranks other than 0
  std::vector<int32_t> signals_;      // of all ranks
  std::atomic<bool> is_ending_{false};
  bool has_ended_ = false;
  std::unique_ptr<cluster::Team> team_;
};

/// Joins the other ranks, calls `run`, ends together with the other ranks, and returns the exit
/// code. If `run` fails on one rank, ends the processes of all ranks with its exit code.
int RunOnRanks(const std::function<int(RankRun&)>& run);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_RUN_H_
