#ifndef STOWAGE_GPU_NCCL_H_
#define STOWAGE_GPU_NCCL_H_

// Messages between the GPUs of several ranks by NCCL, which is looked for when a program
// runs on several.
//
// Of NCCL nothing is used but bytes from one rank to another: its own sums have no fixed
// order, and ours have (gpu/kernels/collectives.cu.cc). The ranks find one another by
// what has joined them already, such as MPI (cluster/team.h).
//
//   Result<std::unique_ptr<Nccl>> nccl = Nccl::Join(collectives, /*cuda=*/13);
//   (*nccl)->Exchange(messages, stream);

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "gpu/queue.h"
#include "runtime/backend.h"

namespace stowage::gpu {

class Nccl {
 public:
  /// Opens NCCL (PlacesOf) on the current device, and waits for all ranks of
  /// `collectives`, each of which calls this. Errors: kRankLost; kDevice: a rank has no NCCL
  /// or another version of it, told at every rank; NCCL's own, as of two ranks on one
  /// GPU.
  static Result<std::unique_ptr<Nccl>> Join(Collectives& collectives, int cuda);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int version() const { return version_; }  // 22703
  const std::string& path() const { return path_; }

  /// Gives all sends and receives of an exchange to `stream`, a cudaStream_t, in one
  /// group. Error kDevice with what NCCL says.
  Status Exchange(std::span<const PeerMessages> messages, void* stream);

 private:
  struct Functions;

  Nccl();
  Status Load(int cuda);
  Status Check(int result, std::string_view what) const;

  std::unique_ptr<Functions> functions_;
  std::string path_;
  int version_ = 0;
  int rank_ = 0, ranks_ = 1;
  void* communicator_ = nullptr;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_NCCL_H_
