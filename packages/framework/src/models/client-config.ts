/** Per-request model client override; names as on the wire. */
export type ClientConfig = {
  readonly base_url?: string | null
  readonly api_key?: string | null
  readonly default_headers?: Readonly<Record<string, string>> | null
  readonly thirdparty_keys?: Readonly<Record<string, string>> | null
  readonly model?: string | null
  readonly model_settings_extra_args?: Readonly<Record<string, unknown>> | null
}
