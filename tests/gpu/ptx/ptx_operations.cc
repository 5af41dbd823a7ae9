#include "tests/gpu/ptx/ptx_operations.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

namespace stowage::testing::ptx {

const std::vector<Operation>& Operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> joined = ArithmeticOperations();
    for (auto table :
         {ConversionOperations(), WarpOperations(), WarpgroupOperations(),
          MemoryOperations(), MbarrierOperations(), BulkCopyOperations()}) {
      std::ranges::move(table, std::back_inserter(joined));
    }
    return joined;
  }();
  return all;
}

const Operation* FindOperation(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const Operation*> map;
    for (const Operation& operation : Operations()) {
      map[operation.name] = &operation;
    }
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace stowage::testing::ptx
