#ifndef STOWAGE_RUNTIME_BACKEND_H_
#define STOWAGE_RUNTIME_BACKEND_H_

// What a device must offer: memory, copies, the scratch its kernels need, and a
// way to run a bound program. The CPU backend (cpu/cpu_backend.h) is always
// there.
//
//   Plan plan = *PlanMemory(step, {.workspace = backend.WorkspaceFunction()});
//   Session session = *Session::Create({{"train", step, plan}}, backend);

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/lifetimes.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage {

/// A program bound to a device: kernels chosen, addresses fixed.
class Executable {
 public:
  virtual ~Executable() = default;

  /// Runs launches [first, last) of the program in order and waits for them.
  /// Allocates nothing, throws nothing. On failure *failed is the launch's
  /// index.
  virtual StepCode Run(size_t first, size_t last, size_t* failed) noexcept = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  /// Scratch bytes of the kernel for `node`; what the plan must be made with.
  virtual Bytes Workspace(const Graph& graph, const Node& node) const = 0;
  WorkspaceFn WorkspaceFunction() const {
    return [this](const Graph& graph, const Node& node) {
      return Workspace(graph, node);
    };
  }

  /// Error kUnsupported naming the first node this backend has no kernel for.
  virtual Status Supports(const Graph& graph) const = 0;

  /// One block of at least `bytes` bytes at a multiple of `alignment`. Error
  /// kDevice when it cannot be had. Release with Free.
  virtual Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) = 0;
  virtual void Free(std::byte* block, Bytes bytes,
                    Bytes alignment) noexcept = 0;

  // Between the caller's memory and the device's; no allocation.
  virtual void CopyIn(std::byte* device, std::span<const std::byte> host) = 0;
  virtual void CopyOut(std::span<std::byte> host, const std::byte* device) = 0;
  virtual void FillBytes(std::byte* device, Bytes bytes, uint8_t value) = 0;

  /// `program` must outlive the executable.
  virtual Result<std::unique_ptr<Executable>> Bind(const Program& program) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_BACKEND_H_
