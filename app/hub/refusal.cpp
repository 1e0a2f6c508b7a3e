#include "app/hub/refusal.h"

#include "app/hub/patience.h"

namespace ft::hub {
namespace {

constexpr const char* kLogIn = "log in with hf auth login, or put a token into HF_TOKEN";

bool may_pass(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

[[noreturn]] void refuse_gated(const Access& access, const HubName& name, const std::string& page) {
  const std::string accept = str(name.id, " is gated: accept its conditions at ", page);
  throw UserError(Exit::mismatch,
                  access.token.empty()
                      ? str(accept, ", and ", kLogIn)
                      : str(accept, " with the account of the token in ", printable(access.token_source),
                            "; a fine-grained token also needs access to gated repositories"));
}

[[noreturn]] void refuse_missing(const Access& access, const HubName& name, const std::string& page) {
  const char* const kind = name.kind == HubKind::dataset ? "data set" : "model";
  throw RepositoryMissing(
      Exit::input,
      str(page, ": the hub has no such ", kind, ", or it is private; check the name",
          access.token.empty()
              ? str(", or ", kLogIn)
              : str(", or use a token that may read it (now: ", printable(access.token_source), ")")));
}

}  // namespace

void refuse(const HttpHead& reply, const std::string& origin, bool home, const Access& access,
            const HubName& name) {
  const std::string page = access.page(name.kind == HubKind::dataset, name.id);
  const std::string& code = reply.field("x-error-code");
  const std::string& message = reply.field("x-error-message");
  const std::string said = message.empty() ? "" : ": " + printable(message);
  const int status = reply.status;
  if (may_pass(status))
    throw Trouble(
        str(origin, status == 429 ? ": too many requests" : ": the server is busy", " (", status, ")", said),
        retry_after(reply.field("retry-after")));
  if (!home && (status == 401 || status == 403))
    throw AddressExpired(str(origin, ": refuses the request (", status, ")"));
  if (code == "GatedRepo") refuse_gated(access, name, page);
  if (code == "RevisionNotFound")
    throw UserError(Exit::input, str(page, ": has no revision ", printable(name.revision),
                                     "; its branches are at ", page, "/tree/main"));
  if (code == "EntryNotFound") throw UserError(Exit::input, str(page, ": a listed file is gone", said));
  const bool refused = message.find("Invalid credentials") != message.npos;
  if (status == 401 && refused && !access.token.empty())
    throw UserError(Exit::mismatch, str("the hub refuses the token in ", printable(access.token_source),
                                        "; make another one at ", access.endpoint, "/settings/tokens"));
  if (code == "RepoNotFound" || (home && (status == 401 || status == 404)))
    refuse_missing(access, name, page);
  if (status == 403 || status == 407)
    throw UserError(Exit::mismatch,
                    str(status == 407 ? "the proxy asks for a password" : page + ": access denied", " (",
                        status, ")", said));
  throw UserError(Exit::input, str(origin, ": answers with status ", status, said));
}

}  // namespace ft::hub
