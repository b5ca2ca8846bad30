import { Agency, Agent } from '@bureau/framework'

/** An agency file as `bureau start` takes it. */
export const shop = new Agency({
  name: 'Shop',
  entryPoint: new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test' }),
})
