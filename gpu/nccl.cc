#include "gpu/nccl.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/shared_library.h"
#include "base/strings.h"
#include "gpu/device_checks.h"

namespace stowage::gpu {
namespace {

// The used part of nccl.h, whose binary interface has been the same since 2.7, so that a build
// needs no NCCL.
using Communicator = void*;
struct UniqueId {
  std::array<std::byte, 128> bytes;
};
constexpr int kSuccess = 0;
constexpr int kBytes = 1;  // ncclUint8

// The message of each rank to the others before they join.
struct Greeting {
  UniqueId id;          // of rank 0; where others begin
  int32_t version = 0;  // 0: no NCCL
};

}  // namespace

struct Nccl::Functions {
  int (*GetVersion)(int*) = nullptr;
  int (*GetUniqueId)(UniqueId*) = nullptr;
  int (*CommInitRank)(Communicator*, int, UniqueId, int) = nullptr;
  int (*CommDestroy)(Communicator) = nullptr;
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  int (*Send)(const void*, size_t, int, int, Communicator, void*) = nullptr;
  int (*Recv)(void*, size_t, int, int, Communicator, void*) = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
};

Nccl::Nccl() : functions_(std::make_unique<Functions>()) {}

Nccl::~Nccl() {
  if (communicator_ != nullptr) functions_->CommDestroy(communicator_);
}

Status Nccl::Load(int cuda) {
  STOWAGE_ASSIGN_OR_RETURN(const SharedLibrary library, OpenNccl(cuda));
  path_ = library.path;
#define STOWAGE_LOOK_UP(name)                                         \
  functions_->name = reinterpret_cast<decltype(functions_->name)>(    \
      library.Find("nccl" #name));                                    \
  if (functions_->name == nullptr) {                                  \
    return DeviceError("[gpu] ",                                      \
                       StrCat(path_,                                  \
                              " is no NCCL of version 2.7 or later: " \
                              "it lacks nccl" #name));                \
  }
  STOWAGE_LOOK_UP(GetVersion)
  STOWAGE_LOOK_UP(GetUniqueId)
  STOWAGE_LOOK_UP(CommInitRank)
  STOWAGE_LOOK_UP(CommDestroy)
  STOWAGE_LOOK_UP(GroupStart)
  STOWAGE_LOOK_UP(GroupEnd)
  STOWAGE_LOOK_UP(Send)
  STOWAGE_LOOK_UP(Recv)
  STOWAGE_LOOK_UP(GetErrorString)
#undef STOWAGE_LOOK_UP
  return Check(functions_->GetVersion(&version_), "ncclGetVersion");
}

Status Nccl::Check(int result, std::string_view what) const {
  if (result == kSuccess) return {};
  return DeviceError("[gpu] NCCL of ", path_, ": ",
                     functions_->GetErrorString(result), " from ", what,
                     " at rank ", rank_, " of ", ranks_);
}

Result<std::unique_ptr<Nccl>> Nccl::Join(Collectives& collectives, int cuda) {
  std::unique_ptr<Nccl> nccl(new Nccl);
  nccl->rank_ = collectives.rank();
  nccl->ranks_ = collectives.ranks();
  const Functions& f = *nccl->functions_;
  // A rank that fails reports it, since the others would wait.
  Status own = nccl->Load(cuda);
  Greeting greeting;
  if (own.ok() && nccl->rank_ == 0) {
    own = nccl->Check(f.GetUniqueId(&greeting.id), "ncclGetUniqueId");
  }
  if (own.ok()) greeting.version = nccl->version_;
  std::vector<Greeting> all(static_cast<size_t>(nccl->ranks_));
  const bool met =
      collectives.AllGather(std::as_bytes(std::span(&greeting, 1)),
                            std::as_writable_bytes(std::span(all)));
  STOWAGE_RETURN_IF_ERROR(own);
  if (!met) {
    return Error{ErrorCode::kRankLost,
                 "[gpu] a rank was lost before NCCL had joined its GPU"};
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].version == 0) {
      return DeviceError("[gpu] rank ", rank, " of ", all.size(),
                         " has no NCCL");
    }
    if (all[rank].version == all[0].version) continue;
    return DeviceError("[gpu] NCCL of rank ", rank, " is version ",
                       all[rank].version, ", of rank 0 ", all[0].version,
                       "; all must be the same");
  }
  STOWAGE_RETURN_IF_ERROR(
      nccl->Check(f.CommInitRank(&nccl->communicator_, nccl->ranks_, all[0].id,
                                 nccl->rank_),
                  "ncclCommInitRank"));
  return nccl;
}

Status Nccl::Exchange(std::span<const PeerMessages> messages, void* stream) {
  const Functions& f = *functions_;
  STOWAGE_RETURN_IF_ERROR(Check(f.GroupStart(), "ncclGroupStart"));
  int result = kSuccess;
  const auto note = [&result](int code) {
    if (result == kSuccess) result = code;
  };
  for (const PeerMessages& each : messages) {
    if (!each.sent.empty()) {
      note(f.Send(each.sent.data(), each.sent.size(), kBytes, each.peer,
                  communicator_, stream));
    }
    if (!each.received.empty()) {
      note(f.Recv(each.received.data(), each.received.size(), kBytes, each.peer,
                  communicator_, stream));
    }
  }
  const int ended = f.GroupEnd();  // whatever went wrong within
  STOWAGE_RETURN_IF_ERROR(Check(result, "ncclSend or ncclRecv"));
  return Check(ended, "ncclGroupEnd");
}

}  // namespace stowage::gpu
