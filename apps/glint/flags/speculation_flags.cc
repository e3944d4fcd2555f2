#include "flags/groups.h"

namespace glint {

void add_speculation_flags(FlagTable& table, ServeFlags& to) {
  table.group("Speculation", {"SpeculativeConfig"});
  table.add(object_flag("speculative-config", to.speculative_config)
                .key("method", "mtp: the model's own MTP layer drafts")
                .key("num_speculative_tokens", "drafts of a sequence in one step, 1 to 8, or auto")
                .help(R"(Drafting: {"method": "mtp", "num_speculative_tokens": 5})"));
  DraftFlags& draft = to.sglang_drafts;
  table.add(
      value_flag("speculative-algorithm", draft.algorithm,
                 Choice{{"eagle", "nextn", "mtp"},
                        {{"eagle3", "no head of that kind is in this checkpoint; choose EAGLE or NEXTN"},
                         {"standalone", "a second model is not supported; choose EAGLE or NEXTN"},
                         {"ngram", "drafts come from the MTP layer; choose EAGLE or NEXTN"}},
                        true})
          .metavar("NAME")
          .help("SGLang's way: EAGLE and NEXTN both mean the model's own MTP layer"));
  table.add(value_flag("speculative-num-steps", draft.steps, WholeNumber{1, 128})
                .metavar("N")
                .default_text("3")
                .help("Drafts of a sequence in one step, 1 to 8"));
  table.add(value_flag("speculative-eagle-topk", draft.topk, WholeNumber{1, 128})
                .metavar("N")
                .help("Width of the draft tree: 1, a chain"));
  table.add(value_flag("speculative-num-draft-tokens", draft.tokens, WholeNumber{2, 129})
                .metavar("N")
                .help("Tokens that are verified together: one more than --speculative-num-steps"));
}

}  // namespace glint
