#include "runtime/all_or_none.h"

#include "base/strings.h"

namespace stowage {

Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write) {
  const Status written = write();
  if (written.ok()) return {};
  for (const std::string& name : names) runner.Forget(name);
  return Error{
      written.error().code,
      StrCat(written.error().message,
             "; some values were written before that, so the ", names.size(),
             " params and states that they are of have none now: load "
             "them anew, or initialize the session")};
}

}  // namespace stowage
