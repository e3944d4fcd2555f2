#include "server/answer_constraint.h"

#include "server/api_error.h"
#include "text/grammar/text_constraint.h"
#include "text/grammar/tool_call_constraint.h"

namespace glint {

namespace {

std::shared_ptr<const CompiledGrammar> compiled(const ServedModel& model, const StructuredOutput& wanted) {
  if (!model.grammars || !grammars_built()) refuse_field(wanted.field, wanted.field, ": ", kGrammarsNotBuilt);
  try {
    return model.grammars->get(wanted.source);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input && error.kind() != ErrorKind::unsupported) throw;
    refuse_field(wanted.field, wanted.field, ": ", error.what());
  }
}

bool demands_call(const ChatRequest& request) {
  return request.tool_choice.mode == ToolChoiceMode::required ||
         request.tool_choice.mode == ToolChoiceMode::named;
}

/// A promised call takes constrained sampling; an answer without one would break the promise.
void check_demand(const ServedModel& model, const ChatRequest& request, ToolCallConstraintMode mode,
                  const GenerationPlan& plan) {
  if (mode == ToolCallConstraintMode::off) {
    refuse_field(
        "tool_choice",
        "tool_choice required, or with a function name, needs the server's --tool-call-constraint forced or "
        "all; use \"auto\"");
  }
  if (!model.grammars || !grammars_built()) refuse_field("tool_choice", "tool_choice: ", kGrammarsNotBuilt);
  if (request.tool_choice.mode == ToolChoiceMode::named && plan.options.structured) {
    refuse_field(plan.options.structured->field, plan.options.structured->field,
                 " cannot be asked for beside a tool_choice that names a function");
  }
}

void constrain_calls(const ServedModel& model, const ChatRequest& request, GenerationPlan& plan) {
  using Calls = ToolCallPlan::Calls;
  const bool named = request.tool_choice.mode == ToolChoiceMode::named;
  auto calls = std::make_shared<ToolCallPlan>(
      make_tool_rules(request.tools, named ? request.tool_choice.name : "", *model.grammars),
      demands_call(request) ? Calls::must : Calls::may, named || !request.parallel_tool_calls, *model.tags,
      model.grammars->table());
  if (plan.options.structured && !demands_call(request))
    calls->content = compiled(model, *plan.options.structured);
  plan.options.sampling.constraint_field = calls->content ? plan.options.structured->field : "tool_choice";
  plan.make_constraint = [calls = std::shared_ptr<const ToolCallPlan>(std::move(calls))] {
    return std::make_shared<ToolCallConstraint>(calls);
  };
}

}  // namespace

void constrain_text(const ServedModel& model, GenerationPlan& plan) {
  if (!plan.options.structured) return;
  plan.options.sampling.constraint_field = plan.options.structured->field;
  plan.make_constraint = [grammar = compiled(model, *plan.options.structured),
                          table = model.grammars->table()]() -> std::shared_ptr<TokenConstraint> {
    return std::make_shared<TextConstraint>(grammar, table);
  };
}

void constrain_chat(const ServedModel& model, const ChatRequest& request, bool starts_in_reasoning,
                    ToolCallConstraintMode mode, GenerationPlan& plan) {
  const bool may_call = request.tool_choice.mode != ToolChoiceMode::none && !request.tools.empty();
  if (demands_call(request)) check_demand(model, request, mode, plan);
  const bool available = model.grammars && grammars_built();
  const bool calls =
      may_call && available &&
      (demands_call(request) || mode == ToolCallConstraintMode::all || plan.options.structured);
  if (calls) {
    constrain_calls(model, request, plan);
  } else {
    constrain_text(model, plan);
  }
  if (!plan.make_constraint || !starts_in_reasoning) return;
  ReasoningRules& reasoning = plan.options.sampling.reasoning;
  constrain_behind_reasoning(model, reasoning);
  if (!calls) return;
  reasoning.ends.push_back(model.tags->id(OutputTag::call_open));
  reasoning.never.pop_back();
  if (!demands_call(request) && !plan.options.structured) reasoning.never.clear();
}

void constrain_behind_reasoning(const ServedModel& model, ReasoningRules& reasoning) {
  reasoning.close = model.tags->id(OutputTag::think_close);
  reasoning.ends = {reasoning.close};
  reasoning.never = model.eos;
  reasoning.never.push_back(model.tags->id(OutputTag::call_open));
}

}  // namespace glint
