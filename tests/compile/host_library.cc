#include "tests/compile/host_library.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

#include "base/result.h"
#include "base/strings.h"
#include "compile/compile.h"
#include "ir/layout.h"
#include "tests/support/elements.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

}  // namespace

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  STOWAGE_CHECK(pipe != nullptr);
  std::string output;
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.append(buffer, count);
  }
  if (pclose(pipe) != 0) Fail(command + "\n" + output);
  return output;
}

HostLibrary::HostLibrary(const std::string& name,
                         const std::map<std::string, std::string>& files,
                         const std::string& flags,
                         const std::string& compiler) {
  const std::string folder = EmptyFolder(StrCat("in_c_", name));
  std::string sources;
  for (const auto& [file, text] : files) {
    std::ofstream(folder + "/" + file) << text;
    if (file.ends_with(".c")) sources += " " + file;
  }
  path_ = folder + "/library.so";
  OutputOf(StrCat("cd ", folder, " && ", compiler, " ", kStrictC, " ", flags,
                  " -shared -fPIC -o library.so", sources, " -lm"));
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) Fail(dlerror());
}

HostLibrary::~HostLibrary() { dlclose(handle_); }

void* HostLibrary::Find(const std::string& name) const {
  void* const symbol = dlsym(handle_, name.c_str());
  if (symbol == nullptr) Fail(dlerror());
  return symbol;
}

GraphInC GraphInC::Make(const Graph& graph, const std::string& prefix,
                        PlanOptions options, int simd) {
  options.alignment = kCAlignment;
  options.device = NeedsOfC(simd);
  Result<Plan> plan = PlanMemory(graph, options);
  if (!plan.ok()) Fail(plan.error().message);
  return Of(graph, *plan, prefix, {}, simd);
}

GraphInC GraphInC::Of(const Graph& graph, const Plan& plan,
                      const std::string& prefix,
                      const std::map<std::string, std::string>& contents,
                      int simd) {
  const Result<CompiledStep> compiled = CompileToC(graph, plan,
                                                   {.prefix = prefix,
                                                    .header = prefix + ".h",
                                                    .caller_arena = true,
                                                    .simd = simd,
                                                    .contents = contents});
  if (!compiled.ok()) Fail(compiled.error().message);
  return {.graph = graph,
          .plan = plan,
          .files = {{prefix + ".h", compiled->header},
                    {prefix + ".c", compiled->source}},
          .prefix = prefix};
}

namespace {

bool IsLetter(char c) { return std::isalnum(c) != 0 || c == '_'; }

// Names that lines beginning with "static" or "KERNEL" declare: of functions, arrays and constants.
std::set<std::string, std::less<>> NamesLocalTo(const std::string& source) {
  std::set<std::string, std::less<>> names = {"INDEX_OUT_OF_RANGE"};
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("static ") && !line.starts_with("KERNEL ")) continue;
    for (size_t at = 0, end = 0; at < line.size(); at = end + 1) {
      for (end = at; end < line.size() && IsLetter(line[end]);) ++end;
      const std::string name = line.substr(at, end - at);
      const std::string_view rest = std::string_view(line).substr(end);
      if (name.empty() || name == "_Alignas") continue;
      if (!rest.starts_with('(') && !rest.starts_with('[') &&
          !rest.starts_with(" =")) {
        continue;
      }
      names.insert(name);
      break;
    }
  }
  return names;
}

}  // namespace

std::string SourceToJoin(const GraphInC& c) {
  const std::string& source = c.files.at(c.prefix + ".c");
  const auto names = NamesLocalTo(source);
  std::string joined;
  for (size_t at = 0, end = 0; at < source.size(); at = end) {
    for (end = at; end < source.size() && IsLetter(source[end]);) ++end;
    if (end == at) {
      joined += source[end++];
      continue;
    }
    const auto name = std::string_view(source).substr(at, end - at);
    if (names.contains(name)) joined += c.prefix + "_";
    joined += name;
  }
  return joined;
}

ArenaInC::ArenaInC(const GraphInC& c)
    : c_(c),
      storage_(static_cast<size_t>(c.plan.arena_bytes() + kCAlignment), 0xFF) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  data_ = storage_.data() + (kCAlignment - address % kCAlignment) % kCAlignment;
}

namespace {

struct Place {
  TensorType type;
  Layout layout;
  Bytes address;
};

Place PlaceOf(const GraphInC& c, const std::string& name) {
  ValueId id = c.graph.Find(name).value();
  for (const GraphOutput& output : c.graph.outputs()) {
    if (output.name == name) id = output.value;
  }
  const auto index = static_cast<size_t>(id);
  const auto buffer = static_cast<size_t>(c.plan.buffer_of[index]);
  return {c.graph.value(id).type, ComputeLayouts(c.graph)[index],
          c.plan.AddressOf(c.plan.buffers[buffer])};
}

}  // namespace

uint8_t* ArenaInC::At(const std::string& name) {
  const Place place = PlaceOf(c_, name);
  return data_ + place.address + place.layout.byte_offset;
}

Bytes ArenaInC::SizeOf(const std::string& name) const {
  return PlaceOf(c_, name).type.bytes();
}

void ArenaInC::Write(const std::string& leaf,
                     const std::vector<double>& elements, uint8_t* elsewhere) {
  const Place place = PlaceOf(c_, leaf);
  uint8_t* const to = elsewhere == nullptr ? data_ + place.address : elsewhere;
  for (size_t i = 0; i < elements.size(); ++i) {
    EncodeElement(
        place.type.dtype, elements[i],
        reinterpret_cast<std::byte*>(to) +
            static_cast<Bytes>(i) * stowage::SizeOf(place.type.dtype));
  }
}

std::vector<double> ArenaInC::Read(const std::string& name,
                                   const uint8_t* elsewhere) const {
  const Place place = PlaceOf(c_, name);
  const uint8_t* const from =
      elsewhere == nullptr ? data_ + place.address : elsewhere;
  std::vector<double> elements;
  for (int64_t i = 0; i < place.type.shape.num_elements(); ++i) {
    elements.push_back(DecodeElement(
        place.type.dtype, reinterpret_cast<const std::byte*>(from) +
                              ElementOffset(i, place.type, place.layout)));
  }
  return elements;
}

}  // namespace stowage::testing
