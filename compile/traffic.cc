#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "compile/compile.h"
#include "compile/kernel.h"
#include "compile/ops.h"

namespace stowage::compile {
namespace {

// The iterations of "for (dim_t i = 2; i < 10; ++i)"; 1 unless both bounds are numbers.
double IterationsOf(std::string_view head) {
  const auto number_after =
      [&](std::string_view mark) -> std::optional<int64_t> {
    const size_t at = head.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = head.substr(at + mark.size());
    int64_t number = 0;
    const auto end =
        std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const bool is_all = end.ec == std::errc() &&
                        end.ptr != rest.data() + rest.size() && *end.ptr == ';';
    return is_all ? std::optional(number) : std::nullopt;
  };
  const auto first = number_after(" = "), last = number_after(" < ");
  return first && last
             ? static_cast<double>(std::max<int64_t>(*last - *first, 0))
             : 1;
}

// How often `line` has an element of `name`.
int AccessesIn(std::string_view line, std::string_view name) {
  int count = 0;
  for (size_t at = line.find(name); at != std::string_view::npos;
       at = line.find(name, at + 1)) {
    const size_t end = at + name.size();
    count += (at == 0 || !IsPartOfName(line[at - 1])) && end < line.size() &&
             line[end] == '[';
  }
  return count;
}

// How often the body of a kernel accesses an element of each of `names`.
std::vector<double> AccessesOf(std::string_view body,
                               const std::vector<std::string>& names) {
  std::vector<double> accesses(names.size(), 0);
  std::vector<double> times = {1};  // that each open block runs
  for (size_t begin = 0; begin < body.size();) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    std::string_view line = body.substr(begin, end - begin);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    begin = end + 1;
    if (line.starts_with('}') && times.size() > 1) times.pop_back();
    const double here =
        times.back() * (line.starts_with("for (") ? IterationsOf(line) : 1);
    for (size_t n = 0; n < names.size(); ++n) {
      accesses[n] += here * AccessesIn(line, names[n]);
    }
    if (line.ends_with('{')) times.push_back(here);
  }
  return accesses;
}

// Whether its kernel works on f32 copies, of which each operand and result is read and written
// once (compile/file_parts.h).
bool WorksOnCopies(const Graph& graph, const Node& node) {
  if (OpInC(node.op).takes_16_bits) return false;
  const auto is_16_bits = [&](ValueId id) {
    return Is16Bits(graph.value(id).type.dtype);
  };
  return std::ranges::any_of(node.inputs, is_16_bits) ||
         std::ranges::any_of(node.results, is_16_bits);
}

}  // namespace
}  // namespace stowage::compile

namespace stowage {

NodeTraffic TrafficOfC(const Graph& graph, const Layouts& layouts,
                       const Node& node, Bytes workspace) {
  NodeTraffic traffic = TrafficOf(graph, layouts, node, workspace);
  const compile::COp op = compile::OpInC(node.op);
  if (op.write == nullptr || compile::WorksOnCopies(graph, node)) {
    return traffic;
  }
  compile::Kernel kernel(graph, node, &layouts);
  op.write(kernel);
  std::vector<std::string> names;
  for (size_t i = 0; i < kernel.num_inputs(); ++i) {
    names.push_back(kernel.in(i).name());
  }
  for (size_t r = 0; r < kernel.num_outputs(); ++r) {
    names.push_back(kernel.out(r).name());
  }
  names.emplace_back(compile::kScratch);
  const std::vector<double> accesses =
      compile::AccessesOf(kernel.Body(), names);
  const auto raise = [&](double* bytes, size_t n, DType dtype) {
    *bytes = std::max(*bytes, accesses[n] * static_cast<double>(SizeOf(dtype)));
  };
  for (size_t i = 0; i < kernel.num_inputs(); ++i) {
    raise(&traffic.operands[i], i, kernel.in(i).dtype());
  }
  for (size_t r = 0; r < kernel.num_outputs(); ++r) {
    raise(&traffic.results[r], kernel.num_inputs() + r, kernel.out(r).dtype());
  }
  raise(&traffic.workspace, names.size() - 1, kernel.real());
  return traffic;
}

}  // namespace stowage
