#ifndef STOWAGE_TESTS_SUPPORT_WRAPPED_BACKEND_H_
#define STOWAGE_TESTS_SUPPORT_WRAPPED_BACKEND_H_

// Provides a backend that forwards every call to another backend, for tests that override some of
// its functions.
//
//   class Failing final : public WrappedBackend {
//     using WrappedBackend::WrappedBackend;
//     Status CopyIn(std::byte*, std::span<const std::byte>) override { return error; }
//   };

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "runtime/backend.h"
#include "runtime/program.h"

namespace stowage::testing {

class WrappedBackend : public Backend {
 public:
  /// `inner` must outlive this object.
  explicit WrappedBackend(Backend& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  std::string description() const override { return inner_.description(); }
  std::string planned_for() const override { return inner_.planned_for(); }
  bool works_on_its_own() const override { return inner_.works_on_its_own(); }
  Bytes Workspace(const Graph& graph, const Node& node) const override {
    return inner_.Workspace(graph, node);
  }
  Bytes Reserve(const Graph& graph, Bytes alignment) const override {
    return inner_.Reserve(graph, alignment);
  }
  Fusions FusesOps() const override { return inner_.FusesOps(); }
  Status Supports(const Graph& graph) const override {
    return inner_.Supports(graph);
  }
  Status CheckBudget(Bytes budget) const override {
    return inner_.CheckBudget(budget);
  }
  Status CheckArena(std::span<std::byte> arena) const override {
    return inner_.CheckArena(arena);
  }
  Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) override {
    return inner_.Allocate(bytes, alignment);
  }
  void Free(std::byte* block, Bytes bytes, Bytes alignment) noexcept override {
    inner_.Free(block, bytes, alignment);
  }
  Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) override {
    return inner_.AllocateHost(bytes, alignment);
  }
  void FreeHost(std::byte* block, Bytes bytes,
                Bytes alignment) noexcept override {
    inner_.FreeHost(block, bytes, alignment);
  }
  Status CopyIn(std::byte* device, std::span<const std::byte> host) override {
    return inner_.CopyIn(device, host);
  }
  Status CopyOut(std::span<std::byte> host, const std::byte* device) override {
    return inner_.CopyOut(host, device);
  }
  Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) override {
    return inner_.FillBytes(device, bytes, value);
  }
  Result<std::unique_ptr<Executable>> Bind(const Program& program) override {
    return inner_.Bind(program);
  }
  std::vector<MemoryNote> MemoryBesideArena() const override {
    return inner_.MemoryBesideArena();
  }

 private:
  Backend& inner_;
};

/// A backend that calls `on_copy`, if set, before it copies values into the arena.
class WatchedBackend final : public WrappedBackend {
 public:
  using WrappedBackend::WrappedBackend;
  Status CopyIn(std::byte* device, std::span<const std::byte> host) override {
    if (on_copy) on_copy();
    return WrappedBackend::CopyIn(device, host);
  }
  std::function<void()> on_copy;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_WRAPPED_BACKEND_H_
