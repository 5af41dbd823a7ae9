#include "python/packings.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "python/arrays.h"
#include "python/errors.h"
#include "report/svg.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

// A column of the table of buffers.
std::vector<int64_t> Column(const py::object& array, const char* name) {
  const ArrayView view(array, name);
  const int64_t count = view.type().shape.num_elements();
  view.CheckIs({DType::kI64, {count}});
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::ranges::copy(view.data(),
                    std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

py::object ToArray(std::span<const int64_t> numbers) {
  return ToNumpy({DType::kI64, {static_cast<int64_t>(numbers.size())}},
                 std::as_bytes(numbers));
}

struct Packed {
  packing::Packing packing;
  std::vector<packing::Violation> violations;
  packing::LowerBound bound;
  std::string svg;
};

Result<Packed> PackAndJudge(const packing::Problem& problem,
                            const packing::PackOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(packing::Packing found,
                           packing::Pack(problem, options));
  return Packed{.packing = found,
                .violations = packing::Validate(problem, found.solution),
                .bound = packing::ComputeLowerBound(problem),
                .svg = ToSvg(problem, found)};
}

py::dict Pack(const py::object& lower, const py::object& upper,
              const py::object& size,
              const std::optional<py::object>& alignment,
              std::optional<Bytes> capacity, const std::string& packer,
              std::optional<double> seconds) {
  const std::vector<int64_t> lowers = Column(lower, "lower");
  const std::vector<int64_t> uppers = Column(upper, "upper");
  const std::vector<int64_t> sizes = Column(size, "size");
  const size_t count = sizes.size();
  const std::vector<int64_t> alignments = alignment
                                              ? Column(*alignment, "alignment")
                                              : std::vector<int64_t>(count, 1);
  if (lowers.size() != count || uppers.size() != count ||
      alignments.size() != count) {
    Raise("InvalidArgument",
          StrCat("[pack] columns differ in length: lower ", lowers.size(),
                 ", upper ", uppers.size(), ", size ", count, ", alignment ",
                 alignments.size(), "; expected a number for each buffer"));
  }
  packing::Problem problem{.capacity = capacity};
  for (size_t i = 0; i < count; ++i) {
    problem.buffers.push_back({.lower = lowers[i],
                               .upper = uppers[i],
                               .size = sizes[i],
                               .alignment = alignments[i]});
  }
  packing::PackOptions options{.packer = ValueOf(packing::ParsePacker(packer))};
  constexpr double kLongest = 1e9;  // a clock counts so many
  if (seconds && !(*seconds >= 0 && *seconds <= kLongest)) {
    Raise("InvalidArgument",
          StrCat("[pack] seconds are ", *seconds,
                 "; expected a number from 0 to ", kLongest));
  }
  if (seconds) {
    options.deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(*seconds));
  }
  const Packed packed =
      WithoutGil([&] { return PackAndJudge(problem, options); });
  std::vector<std::string> violations;
  for (const packing::Violation& violation : packed.violations) {
    violations.push_back(violation.text);
  }
  std::vector<int64_t> live;
  for (const size_t i : packing::LiveAt(problem, packed.bound.time)) {
    live.push_back(static_cast<int64_t>(i));
  }
  py::dict result;
  result["offsets"] = ToArray(packed.packing.solution.offsets);
  result["height"] = packed.packing.solution.height;
  result["lower_bound"] = packed.packing.lower_bound;
  result["optimal"] = packed.packing.optimal;
  result["packer"] = packed.packing.packer;
  result["violations"] = violations;
  result["bound_time"] = packed.bound.time;
  result["bound_buffers"] = ToArray(live);
  result["svg"] = packed.svg;
  return result;
}

}  // namespace

void BindPackings(py::module_& module) {
  module.def("pack", &Pack, py::arg("lower"), py::arg("upper"), py::arg("size"),
             py::arg("alignment"), py::arg("capacity"), py::arg("packer"),
             py::arg("seconds"));
}

}  // namespace stowage::python
