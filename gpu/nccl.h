#ifndef STOWAGE_GPU_NCCL_H_
#define STOWAGE_GPU_NCCL_H_

// Sends messages between the GPUs of several ranks with NCCL. The library is loaded only when the
// ranks connect (Join).
//
// Only NCCL's sends and receives are used. The order of additions in NCCL's reductions is not
// fixed, unlike in the reductions of gpu/kernels/collectives.cu.cc. The ranks connect through
// collectives on the host, such as MPI (cluster/team.h).
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
  /// Loads NCCL for major version `cuda` of CUDA (OpenNccl in gpu/device_checks.h), and connects
  /// the current devices of all ranks of `collectives`. All ranks must call this, and each call
  /// waits for the others. Returns kRankLost if another rank was lost. If a rank has no NCCL or
  /// another version of it, all ranks return kDevice. Also returns kDevice for errors of NCCL, for
  /// example if two ranks use one GPU.
  static Result<std::unique_ptr<Nccl>> Join(Collectives& collectives, int cuda);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int version() const { return version_; }  // 22703
  const std::string& path() const { return path_; }

  /// Enqueues all sends and receives on `stream`, a cudaStream_t, in one group. Returns kDevice
  /// with NCCL's message on failure.
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
