// Whole checkpoint files, as they are and with a digest that is right again: one that
// is refused leaves every value as it was, one that loads gives every value the
// bytes that the file has under its name.

#include "runtime/checkpoint.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/fuzz/fuzz.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

constexpr const char* kValues[] = {"w", "b", "w.m"};

class NoKernels final : public Executable {
 public:
  StepCode Run(size_t, size_t, size_t*) noexcept override {
    return StepCode::kStepUnknown;
  }
  void WriteInput(ValueId, std::span<const std::byte>) override {}
  void ReadInput(ValueId, std::span<std::byte>) const override {}
};

// Memory, and nothing that runs in it.
class Memory final : public Backend {
 public:
  std::string_view name() const override { return "memory"; }
  Bytes Workspace(const Graph&, const Node&) const override { return 0; }
  Status Supports(const Graph&) const override { return {}; }
  Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) override {
    return static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes),
                       std::align_val_t(static_cast<size_t>(alignment))));
  }
  void Free(std::byte* block, Bytes, Bytes alignment) noexcept override {
    ::operator delete(block, std::align_val_t(static_cast<size_t>(alignment)));
  }
  Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) override {
    return Allocate(bytes, alignment);
  }
  void FreeHost(std::byte* block, Bytes bytes,
                Bytes alignment) noexcept override {
    Free(block, bytes, alignment);
  }
  Status CopyIn(std::byte* device, std::span<const std::byte> host) override {
    std::memcpy(device, host.data(), host.size());
    return {};
  }
  Status CopyOut(std::span<std::byte> host, const std::byte* device) override {
    std::memcpy(host.data(), device, host.size());
    return {};
  }
  Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) override {
    std::memset(device, value, static_cast<size_t>(bytes));
    return {};
  }
  Result<std::unique_ptr<Executable>> Bind(const Program&) override {
    return std::unique_ptr<Executable>(std::make_unique<NoKernels>());
  }
};

// Two params of two types, of which one has a state.
Graph Example() {
  GraphBuilder g("example");
  const Value w = g.Param("w", DType::kF32, {2, 3}, Init::Normal(1));
  const Value b = g.Param("b", DType::kBF16, {2}, Init::Normal(1));
  const Value m = g.State("w.m", DType::kF32, {2, 3}, Init::Normal(1));
  MomentumUpdate(w, m, g.Input("dw", DType::kF32, {2, 3}),
                 g.Input("lr", DType::kF32, {}), Value(), 0.9, 0);
  g.Output("b2", Add(b, b));
  return g.Finish().value();
}

Session Open(Backend& backend) {
  const Graph graph = Example();
  Plan plan = PlanMemory(graph, {.device = backend.Needs()}).value();
  return Session::Create({{"p", graph, std::move(plan)}}, backend).value();
}

std::vector<std::byte> ValueOf(const Runner& runner, std::string_view name) {
  const TensorType type = runner.graph().value(*runner.graph().Find(name)).type;
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  Check(runner.ReadBytes(name, type.dtype, bytes).ok());
  return bytes;
}

// The header of a file and its data, if there is one.
bool Split(std::string_view file, SafetensorsHeader* header,
           std::string_view* data) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return false;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > file.size() - sizeof(length)) return false;
  *data = file.substr(sizeof(length) + length);
  auto parsed = ParseSafetensorsHeader(file.substr(sizeof(length), length),
                                       static_cast<Bytes>(data->size()));
  if (parsed.ok()) *header = *std::move(parsed);
  return parsed.ok();
}

// The file with the digest that its content has: FNV-1a of what
// runtime/checkpoint.cc says, computed here anew.
std::string Repaired(const std::string& file) {
  constexpr std::string_view kKey = "\"fnv1a64\":\"";
  SafetensorsHeader header;
  std::string_view data;
  const size_t at = file.find(kKey);
  if (!Split(file, &header, &data) || at == std::string::npos) return file;
  const std::string* const step = header.Find("step");
  const std::string* const params = header.Find("params");
  if (step == nullptr || params == nullptr) return file;
  std::string text = StrCat("step ", *step, ";params ", *params, ";");
  for (const auto& [name, note] : header.metadata) {
    if (name == "format" || name == "step" || name == "params" ||
        name == "fnv1a64") {
      continue;
    }
    text += StrCat("note ", Quoted(name), Quoted(note), ";");
  }
  for (const SafeTensor& tensor : header.tensors) {
    text += StrCat(Quoted(tensor.name), tensor.type.ToString(), tensor.begin,
                   ",", tensor.end, ";");
  }
  uint64_t hash = 14695981039346656037u;
  for (const std::string_view part : {std::string_view(text), data}) {
    for (const char c : part) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
  }
  std::string digest;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digest += "0123456789abcdef"[hash >> shift & 15];
  }
  std::string repaired = file;
  if (at + kKey.size() + digest.size() <= file.size()) {
    repaired.replace(at + kKey.size(), digest.size(), digest);
  }
  return repaired;
}

void Load(Session& session, const std::string& file) {
  // A file that is in memory alone.
  static const int number = memfd_create("checkpoint", 0);
  static const std::string path = StrCat("/proc/self/fd/", number);
  Check(number >= 0 && ftruncate(number, 0) == 0);
  Check(pwrite(number, file.data(), file.size(), 0) ==
        static_cast<ssize_t>(file.size()));
  Runner& runner = session.front();
  session.Initialize(7);
  std::vector<std::vector<std::byte>> before;
  for (const char* name : kValues) before.push_back(ValueOf(runner, name));
  const Result<int64_t> step = LoadCheckpoint(runner, path);
  if (!step.ok()) {
    for (size_t i = 0; i < before.size(); ++i) {
      Check(ValueOf(runner, kValues[i]) == before[i]);
    }
    return;
  }
  Check(*step >= 0 && *step <= kMaxCheckpointStep);
  SafetensorsHeader header;
  std::string_view data;
  Check(Split(file, &header, &data));
  Check(header.tensors.size() == std::size(kValues));
  for (const SafeTensor& tensor : header.tensors) {
    const std::vector<std::byte> value = ValueOf(runner, tensor.name);
    Check(tensor.end - tensor.begin == static_cast<Bytes>(value.size()));
    Check(std::memcmp(value.data(), data.data() + tensor.begin, value.size()) ==
          0);
  }
}

FUZZ_TARGET(checkpoint)(const uint8_t* data, size_t size) {
  static Memory memory;
  static Session session = Open(memory);
  const std::string file(reinterpret_cast<const char*>(data), size);
  Load(session, file);
  if (const std::string repaired = Repaired(file); repaired != file) {
    Load(session, repaired);
  }
  return 0;
}

}  // namespace
