#ifndef STOWAGE_TOOLS_RANK_RUN_H_
#define STOWAGE_TOOLS_RANK_RUN_H_

// A training run on several ranks started by mpirun or srun, from the view of one of them. With
// one rank, all functions do nothing.
//
// Rank 0 prints, and writes all files but the shards of checkpoints. Output of other ranks is
// dropped, except for the error that ends them, which rank 0 prints. If a rank is lost, the
// others report it and exit with code 3; checkpoints stay whole.
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
  /// Connects to the other ranks of the launcher. Errors: those of cluster::ReadLaunch and
  /// cluster::Team::Join.
  static Result<std::unique_ptr<RankRun>> Join();
  ~RankRun() override;
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int rank() const { return launch_.rank; }
  int ranks() const { return launch_.ranks; }
  /// The index of this rank on its host.
  int local_rank() const { return launch_.local_rank; }
  bool alone() const { return team_ == nullptr; }
  /// Whether this rank prints and writes files.
  bool speaks() const { return rank() == 0; }
  /// Null if there is one rank.
  Collectives* collectives();
  /// `asked`; if it is 0, the cores of the host divided by its ranks, or 0 if there is one rank.
  int Threads(int asked) const;
  /// The bytes that this rank has sent.
  int64_t bytes_sent() const override;

  // The functions below are collective.

  /// Compares the program, its options except those that may differ between hosts (--threads,
  /// --data), and `facts`. Errors: those of cluster::Agree.
  Status Agree(const cluster::Facts& facts);
  /// The signal that the lowest rank with one has caught, equal on all ranks; 0 for none.
  Result<int> AnyOf(int signal) override;
  /// Broadcasts from rank 0: a number, or params and states.
  Status Share(int64_t* number);
  Status Share(Runner& runner);
  /// Sums over all ranks, in rank order.
  Status Sum(std::span<double> values);
  /// Ends the run of all ranks with one exit code, which it returns.
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

/// Runs `run` on this rank, ends together with the others, and returns its exit code. An error
/// ends the others with its code.
int RunOnRanks(const std::function<int(RankRun&)>& run);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_RUN_H_
