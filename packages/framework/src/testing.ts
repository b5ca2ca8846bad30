/**
 * For tests of your own agencies: a model whose answers are written down beforehand. Give it to an agent as its `model`
 * and run the agency with `ask`; nothing leaves the process.
 */
export { assistantMessage, functionCall, modelError, modelResponder, ScriptedModel } from './models/scripted-model.ts'
