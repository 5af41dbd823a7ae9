#include "ir/op_def.h"

#include "base/strings.h"

namespace stowage {

std::string OpArgs::Describe(int i) const {
  return StrCat(Quoted(names[static_cast<size_t>(i)]), " is ",
                type(i).ToString());
}

Error OpArgs::Fail(std::string_view message) const {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[", OpName(op), "] ", message)};
}

bool AcceptAnyStrides(const OpArgs&, int, const Strides&) { return true; }

}  // namespace stowage
