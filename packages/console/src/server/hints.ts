/** What to do about a failure, by its code: the server's sentence says what happened. */
export const HINTS: Readonly<Record<string, string>> = {
  upstream_auth_failed:
    'Check the key of the model provider: OPENAI_API_KEY, or that of the vendor in the name of the model. Then start the server again.',
  upstream_invalid_request:
    'Often the name of a model that the provider does not have, or a setting that the model does not know. The cause below is what the provider said.',
  upstream_quota_exhausted: 'Add credit to the account at the model provider, or use another key.',
  upstream_rate_limited: 'Wait a little and send it again, or raise the limits at the provider.',
  upstream_unavailable: 'Check OPENAI_BASE_URL and the network of the server, or wait until the provider is back.',
  upstream_timeout: 'The provider is slow or hangs. Send it again, or use a smaller model.',
  context_length_exceeded: 'Begin a new chat, or limit what tools return.',
  tool_server_unavailable: 'Check the address or the command of the MCP server, and whether it runs.',
  guardrail_tripped: 'A guardrail of the agent has stopped it on purpose. Change the message, or the guardrail.',
  max_turns_exceeded: 'The agent goes round in circles, or needs more turns: raise maxTurns of the agency.',
  run_timeout: 'Look for the slow step in the timeline of the run, or raise the time limit of the agency.',
  invalid_configuration: 'The agency is not set up completely. The cause below names what is missing.',
  invalid_user_context:
    'The context of this chat does not fit what the agency accepts. Change it in the options of the chat.',
  oauth_timeout: 'Nobody signed in in time. Send it again, and open the link of the sign-in.',
  output_limit_exceeded: 'Ask for less at once.',
  connection_lost: 'The server cannot be reached. The run may go on there: reload the page to come back to it.',
  unauthorized: 'The token is not valid any more. Sign in again.',
  invalid_request: 'The request was refused before anything began. The sentence names the field.',
  approval_required: 'A tool of this agent asks for an approval.',
  overloaded: 'The server is at its limit. Send it again in a moment.',
}
